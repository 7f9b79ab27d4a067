"""What this process does, reported to the launcher when the job makes no progress.

With --hang-timeout the launcher names a file in ELASTIC_EVIDENCE. A thread waits there for a
question, and answers with the stacks of all threads and with what torch's flight recorder has.
It sleeps in a read until then. A process whose interpreter stands still does not answer.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from typing import Optional

LARGEST = 2 << 20
"""Bytes of a dump of the flight recorder; a larger one is not sent."""


def listen(base: Optional[str] = None) -> bool:
    """Start the thread, once for each worker. A process that the worker starts inherits the variable, and
    does not answer."""
    base = base or os.environ.get("ELASTIC_EVIDENCE")
    if not base:
        return False
    try:
        os.mkfifo(base + ".ask", 0o600)
        pipe = os.open(base + ".ask", os.O_RDWR | os.O_CLOEXEC)
        threading.Thread(target=_serve, args=(base, pipe), name="elastic-evidence", daemon=True).start()
    except (OSError, RuntimeError):  # another process answers, or a full disk: training matters more
        return False
    return True


def _serve(base: str, pipe: int) -> None:
    while os.read(pipe, 4096):
        try:
            flight = _flight()
            if flight:
                _write(base + ".flight", flight)
            with open(base + ".new", "wb") as file:
                faulthandler.dump_traceback(file, all_threads=True)
            os.replace(base + ".new", base + ".stacks")
        except Exception:  # a stack or record that cannot be read is left out
            pass


def _flight() -> Optional[bytes]:
    """The flight recorder of torch, if the script uses torch and it records."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):
        dump = getattr(c10d, name, None)
        if dump is None:
            continue
        try:
            text = dump()
        except Exception:  # a build without it
            continue
        text = text.encode() if isinstance(text, str) else text
        return text if len(text) <= LARGEST else None
    return None


def _write(path: str, content: bytes) -> None:
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)
