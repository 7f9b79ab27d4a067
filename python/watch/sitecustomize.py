"""Answers questions of the launcher about a worker that makes no progress.

The launcher puts this directory first in a worker's PYTHONPATH and names a file in
ELASTIC_EVIDENCE. Python imports this module before the script. A thread waits for a question in a
pipe, and answers with the stacks of all threads and with what torch's flight recorder has. It
sleeps in a read until then. Where the interpreter stands still (a library holds its lock), a
signal makes the C code of faulthandler write the stacks.
"""

import os
import sys

SIGNAL = 62
"""One of the real-time signals, which programs do not use."""
LARGEST = 2 << 20
"""Bytes of a dump of the flight recorder; of a larger one only the newest collective is sent."""


def start():
    """Answer for this process, if it is the worker: the first that makes the pipe."""
    import faulthandler
    import threading

    base = os.environ.get("ELASTIC_EVIDENCE", "")
    if not base:
        return
    try:
        os.mkfifo(base + ".ask", 0o600)
        pipe = os.open(base + ".ask", os.O_RDWR | os.O_CLOEXEC)
        stuck = open(base + ".stuck", "wb", buffering=0)
        faulthandler.register(SIGNAL, file=stuck, all_threads=True)
        threading.Thread(target=_serve, args=(base, pipe, stuck), name="elastic-evidence", daemon=True).start()
    except (OSError, RuntimeError):  # another process answers, or a full disk: training matters more
        return


def _serve(base, pipe, stuck):
    import faulthandler

    while os.read(pipe, 4096):
        try:
            flight, last = _flight()
            _write(base + ".flight", flight if len(flight) <= LARGEST else b"")
            _write(base + ".collective", last)
            with open(base + ".new", "wb") as file:
                faulthandler.dump_traceback(file, all_threads=True)
            os.replace(base + ".new", base + ".stacks")
        except Exception:  # a stack or record that cannot be read is left out
            pass


def _flight():
    """What torch's flight recorder has, as torch pickles it, and the newest collective of all ranks in it, as JSON.

    Each backend has a recorder of its own, and what is asked of one says nothing of another. The stack of each
    collective is left out, because torch takes seconds to find its symbols, and the script waits meanwhile.
    """
    c10d = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        return b"", b""
    import json
    import pickle

    for name, backend in (
        ("_dump_nccl_trace", {}),
        ("_dump_fr_trace", {"backend": "nccl"}),
        ("_dump_fr_trace", {}),  # gloo's
    ):
        try:
            dump = getattr(c10d, name)(includeStackTraces=False, **backend)
            entries = pickle.loads(dump)["entries"]
            of_all = [e for e in entries if not e["is_p2p"] and e["process_group"][1] == "default_pg"]
        except Exception:  # a build without it, or without this parameter
            continue
        if entries:
            last = max(reversed(of_all), key=lambda e: e["collective_seq_id"], default=None)
            return dump, json.dumps(last and {"seq": last["collective_seq_id"], "name": last["profiling_name"]}).encode()
    return b"", b""


def _write(path, content):
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def _leave_path():
    """Take this directory out of the path of this process and of those that it starts."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    sys.path_importer_cache.pop(here, None)
    if "ELASTIC_WARM" in os.environ:  # the environment is put in place later
        return
    rest = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != here]
    os.environ["PYTHONPATH"] = os.pathsep.join(rest)


def _next():
    """Import the sitecustomize that Python would have imported."""
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None:
        return False
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
    return True


def begin():
    """Leave the path, and answer from now on."""
    _leave_path()
    start()


_leave_path()
sys.modules["_elastic_watch"] = sys.modules[__name__]  # a warm worker begins when it has its World
if "ELASTIC_WARM" not in os.environ:
    start()
if not _next():
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
