"""The parts of `make gpu`: each plays its faults, checks what came of them, and returns the rows of one table."""

import os
import re
import signal
import statistics
import subprocess
import sys
import time

from nodes import HERE, Bed, Failed, descendants, send, until

FLAGS = ["--np=2:3", "--batch-size=48", "--scaling=fixed-batch", "--last-call=200ms", "--max-restarts=20"]
UNMEASURED = {"ELASTIC_NCCL_IN_PLACE": "unmeasured"}


class Part:
    """What all parts know: the folder with the programs, how many cards there are, and whether the run is quick."""

    def __init__(self, programs, cards, quick):
        self.programs, self.cards, self.quick = programs, cards, quick
        self.helper = os.path.join(HERE, "python") if os.path.isdir(os.path.join(HERE, "python")) else os.environ["HELPER"]

    def bed(self, **variables):
        return Bed(self.programs, self.cards, **variables)

    # (a)

    def changes(self):
        """Kill, freeze, crash and join, with workers that stay and that are started again."""
        rows, checks = [["way", "what", "next step after", "steps made again"]], []
        for way in ("in place", "restart")[: 1 if self.quick else 2]:
            with self.bed(WAY=way, PACE="0.02", **(UNMEASURED if way == "in place" else {})) as bed:
                rows += [[way, *row] for row in self._changes(bed)]
                checks.append(f"{way}: " + self._equal(bed))
        return rows, checks

    def _changes(self, bed):
        for name in "abc":
            bed.up(name, FLAGS, "train")
        trains(bed, 3, 0)
        yield measure(bed, "node killed", 2, lambda: bed.kill("c"))
        if self.quick:
            return
        yield measure(bed, "node joins", 3, lambda: bed.up("d", FLAGS, "train"))
        yield measure(bed, "worker crashes", 3, lambda: send([bed.records()[-1].pid], signal.SIGKILL))
        frozen = below(bed, "d")
        yield measure(bed, "node frozen", 2, lambda: send(frozen, signal.SIGSTOP))
        yield measure(bed, "node runs again", 3, lambda: send(reversed(frozen), signal.SIGCONT))

    def _equal(self, bed):
        """Let the job end, and compare its ends with that of one process that nothing disturbs."""
        bed.write("target", str(bed.records()[-1].step + 100))
        for name in bed.nodes:
            bed.ends(name)
        ends = [throughs(bed.read(f"{name}.out"))[-1] for name in bed.nodes]
        alone = subprocess.run(
            [sys.executable, os.path.join(HERE, "work.py"), "train"], cwd=bed.work, capture_output=True, text=True,
            env={**bed.environ, **bed.of_node("alone"), "PYTHONPATH": self.helper, "WAY": "restart", "PACE": "0"}, timeout=300,
        )
        if alone.returncode != 0:
            raise Failed(f"the undisturbed run: {alone.stderr[-600:]}")
        return same(ends, throughs(alone.stdout)[-1])

    # (b)

    def hangs(self):
        """Ten ways to hang: whether the rank is named."""
        ways = ["loader", "lock", "save", "stopped", "socket", "sleep", "child", "spin", "device", "other collective"]
        rows, named = [["rank 1 hangs in", "named", "what is said"]], 0
        flags = ["--np=2", "--hang-timeout=10s", "--max-restarts=0"]
        for how in ways[: 1 if self.quick else 10]:
            with self.bed(HOW=how, BAD="1") as bed:
                for name in "ab":
                    bed.up(name, flags, "hang")
                says = found(bed)
                right = says.startswith("rank 1 on ")
                named += right
                rows.append([how, "yes" if right else "no", says[:90]])
        return rows, [f"{named} of {len(rows) - 1} were named"]

    # (c)

    def saves(self):
        """Saves from the device: how long a step waits, and when two nodes have it."""
        sizes = [1 << 30, 8 << 30, 24 << 30] if self.cards else [64 << 20, 256 << 20]
        rows, checks = [["bytes", "stall of the step", "two copies after"]], []
        for size in sizes[: 1 if self.quick else None]:
            with self.bed(BYTES=str(size)) as bed:
                for name in "ab":
                    bed.up(name, ["--np=2"], "save")
                stalls, copied = zip(*[saved(bed, number) for number in range(1, 2 if self.quick else 4)])
                bed.write("end")
                for name in "ab":
                    bed.ends(name)
                verified = bed.ask("status", "x")["checkpoint"]
                if verified["copies"] != 2 or verified["bytes"] < size:
                    raise Failed(f"the newest checkpoint is {verified}")
                rows.append([f"{size >> 20} MiB", seconds(stalls), seconds(copied)])
                checks.append(f"{size >> 20} MiB: the newest save has all bytes and two copies")
        return rows, checks

    # (d)

    def torchrun(self):
        """The same script under torchrun, on this machine."""
        rows, checks = [["launcher", "what", "next step after", "steps made again"]], []
        for what in ("worker crashes", "node killed"):
            for launcher in ("elastic", "torchrun"):
                with self.bed(WAY="restart", PACE="0.02") as bed:
                    for name in "abc":
                        self._launch(bed, launcher, name)
                    trains(bed, 3, 0)
                    world = 3 if what == "worker crashes" else 2
                    act = {
                        "worker crashes": lambda: send([bed.records()[-1].pid], signal.SIGKILL),
                        "node killed": lambda: bed.kill("c", with_workers=True),
                    }[what]
                    try:
                        rows.append([launcher, *measure(bed, what, world, act, 100)])
                        checks.append(f"{launcher}, {what}: " + self._equal(bed))
                    except Failed as failed:
                        if launcher == "elastic":
                            raise
                        rows.append([launcher, what, "none in 100 s", "-"])
                        checks.append(f"torchrun, {what}: {failed}")
        return rows, checks

    def _launch(self, bed, launcher, name):
        if launcher == "elastic":
            bed.up(name, FLAGS, "train")
            return
        flags = ["--nnodes=2:3", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:41977", "--rdzv-id=x",
                 "--max-restarts=20"]
        bed.start(name, sys.executable, "-m", "torch.distributed.run", *flags, os.path.join(HERE, "work.py"), "train",
                  PYTHONPATH=self.helper, SAVES=bed.path("saves"))

    # (e)

    def llm(self):
        """A language model on one card, with a kill each minute: which part of the time it kept."""
        minutes = 5 if self.cards else 1
        every = 60 if self.cards else 15
        with self.bed() as bed:
            flags = ["--np=1", "--batch-size=8", "--scaling=fixed-batch", "--max-restarts=50"]
            bed.up("a", flags, "llm")
            first = until("the model trains", bed.records)[0].time
            end, kills = first + 60 * minutes, 0
            while time.time() + every < end:
                time.sleep(every)
                pid = bed.records()[-1].pid
                send([pid], signal.SIGKILL)
                kills += 1
                until("it trains again", lambda pid=pid: bed.records()[-1].pid != pid)
            time.sleep(max(0.0, end - time.time()))
            bed.write("end")
            bed.ends("a")
            records, said = bed.records(), throughs(bed.read("a.out"))[-1]
        steps, kept = records[-1].step, 0.0
        for before, after in zip(records, records[1:]):
            if before.pid == after.pid:
                kept += after.time - before.time
        again = len(records) - steps
        kept *= steps / len(records)
        loss = re.search(r"through: (\d+) steps (\d+) samples loss (\S+) finite (True|False)", said)
        if not loss or int(loss[2]) != steps * 8 or loss[4] != "True" or int(loss[1]) != steps:
            raise Failed(f"after {steps} steps the end is {said!r}")
        rows = [["minutes", "kills", "kept", "steps", "made again"],
                [str(minutes), str(kills), f"{100 * kept / (records[-1].time - first):.1f} %", str(steps), str(again)]]
        return rows, [f"each sample counts once ({loss[2]}), all parameters are finite, loss {loss[3]}"]


def throughs(text):
    found = [line for line in text.splitlines() if line.startswith("through")]
    if not found:
        raise Failed("a worker has printed no end")
    return found


def below(bed, name):
    """The processes of a node."""
    return descendants(bed.nodes[name].pid)


def trains(bed, size, since, limit=120.0):
    """Wait until all ranks of a world of that size have made a step after that moment, and return these."""

    def look():
        new = {r.rank: r for r in reversed(bed.records()) if r.size == size and r.time > since}
        return new if len(new) == size else None

    return until(f"{size} ranks train", look, limit)


def measure(bed, what, size, act, limit=120.0):
    """Do something, and measure until the slowest rank of the next world has made a step there."""
    before = bed.records()
    old, at = {(r.generation, r.pid) for r in before}, time.time()
    act()

    def look():
        new = [r for r in bed.records() if r.size == size and (r.generation, r.pid) not in old and r.time > at]
        world = [r for r in new if r.generation == max(n.generation for n in new)]
        first = {r.rank: r for r in reversed(world)}
        return first if len(first) == size else None

    first = until(f"{size} ranks train after: {what}", look, limit)
    begins = min(r.step for r in first.values())
    last = max(r.step for r in bed.records() if (r.generation, r.pid) in old)
    return [what, f"{max(r.time for r in first.values()) - at:.2f} s", str(max(0, last - begins + 1))]


def same(ends, alone):
    """Compare lines of ends: between ranks to the bit, with the undisturbed run within rounding."""
    if len(set(ends)) != 1:
        raise Failed(f"the ranks end apart: {ends}")
    (_, step, total, _), (_, steps, wanted, _) = ends[0].split(), alone.split()
    if step != steps or abs(float(total) - float(wanted)) > 1e-9 * abs(float(wanted)):
        raise Failed(f"a rank ends with {ends[0]!r}, the undisturbed run with {alone!r}")
    return f"parameters equal on {len(ends)} ranks, and with the undisturbed run to 1e-9, after {step} steps"


def found(bed):
    """What is said about a job that hangs."""

    def look():
        events = bed.ask("events", "x") or []
        return next((e["text"] for e in events if e["kind"] == "worker_failed"), None)

    try:
        return until("the hang ends the job", look, 60)
    except Failed as failed:
        return str(failed)


def saved(bed, number):
    """Ask for a save. Return how long the step waited, and how long it took until there were two copies."""
    until("the job trains", lambda: (bed.ask("status", "x") or {}).get("progress"))
    bed.write(f"save{number}")
    asked = time.time()

    def lines():
        return re.findall(r"saved: (\d+) stall (\S+) at", bed.read("a.out") + bed.read("b.out"))

    step, stall = until("it saves", lambda: lines()[number - 1:])[0]

    def look():
        newest = (bed.ask("status", "x") or {}).get("checkpoint") or {}
        return newest.get("step") == int(step) and newest.get("copies") == 2

    until("two nodes have it", look, 300)
    return float(stall), time.time() - asked


def seconds(values):
    return f"p50 {statistics.median(values):.2f} s, most {max(values):.2f} s"
