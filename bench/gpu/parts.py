"""The parts of `make gpu`: each plays its faults, and adds rows to its table and what it has checked."""

import os
import re
import signal
import socket
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

        self.rows, self.checks, self._beds = [], [], []

    def bed(self, **variables):
        self._beds.append(Bed(self.programs, self.cards, **variables))
        return self._beds[-1]

    def end(self):
        """End all processes, also where the part was stopped while it ended them."""
        for bed in self._beds:
            bed.end()

    # (a)

    def changes(self):
        """Kill, freeze, crash and join, with workers that stay and that are started again."""
        self.rows.append(["way", "what", "next step after", "steps made again"])
        for way in ("in place", "restart")[: 1 if self.quick else 2]:
            with self.bed(WAY=way, PACE="0.02", **(UNMEASURED if way == "in place" else {})) as bed:
                for row in self._changes(bed):
                    self.rows.append([way, *row])
                self.checks.append(f"{way}: " + self._equal(bed))

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
        self.rows.append(["rank 1 hangs in", "named", "what is said"])
        flags = ["--np=3", "--hang-timeout=10s", "--max-restarts=0"]
        for how in ways[: 1 if self.quick else 10]:
            with self.bed(HOW=how, BAD="1") as bed:
                for name in "abc":
                    bed.up(name, flags, "hang")
                by, says = found(bed)
                self.rows.append([how, by if says.startswith("rank 1 on ") else "no", says[:90]])
        named = [row[1] for row in self.rows[1:]]
        ended, asked = named.count("yes"), named.count("when asked")
        self.checks.append(f"of {len(named)}, {ended} were ended and named, and {asked} were named when asked")

    # (c)

    def saves(self):
        """Saves from the device: how long a step waits, and when two nodes have it."""
        sizes = [1 << 30, 8 << 30, 24 << 30] if self.cards else [64 << 20, 256 << 20]
        self.rows.append(["bytes", "stall of the step", "two copies after"])
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
                self.rows.append([f"{size >> 20} MiB", seconds(stalls), seconds(copied)])
                self.checks.append(f"{size >> 20} MiB: the newest save has all bytes and two copies")

    # (d)

    def torchrun(self):
        """The same script under torchrun, on this machine."""
        self.rows.append(["launcher", "what", "next step after", "steps made again"])
        for what in ("worker crashes", "node killed")[: 1 if self.quick else 2]:
            for launcher in ("elastic", "torchrun"):
                with self.bed(WAY="restart", PACE="0.02") as bed:
                    try:
                        self._beside(bed, launcher, what)
                    except Failed as failed:
                        if launcher == "elastic":
                            raise
                        self.rows.append([launcher, what, "none", "-"])
                        self.checks.append(f"torchrun, {what}: {failed}")

    def _beside(self, bed, launcher, what):
        port = free_port()
        for name in "abc":
            self._launch(bed, launcher, name, port)
        trains(bed, 3, 0)
        if what == "worker crashes":
            row = measure(bed, what, 3, lambda: send([bed.records()[-1].pid], signal.SIGKILL), 150)
        else:
            row = measure(bed, what, 2, lambda: bed.kill("c", with_workers=True), 150)
        self.rows.append([launcher, *row])
        try:
            self.checks.append(f"{launcher}, {what}: " + self._equal(bed))
        except Failed as failed:
            if launcher == "elastic":
                raise
            self.checks.append(f"torchrun, {what}: its end was not seen: {failed}")

    def _launch(self, bed, launcher, name, port):
        """Start a node. The first one of torchrun has the store of all, so it is there before the others: a job does
        not outlive the node with the store, and that one is not killed."""
        if launcher == "elastic":
            bed.up(name, FLAGS, "train")
            return
        flags = ["--nnodes=2:3", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=x",
                 "--max-restarts=20"]
        bed.start(name, sys.executable, "-m", "torch.distributed.run", *flags, os.path.join(HERE, "work.py"), "train",
                  PYTHONPATH=self.helper, SAVES=bed.path("saves"))
        until("the store of torchrun listens", lambda: listens(port))

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
        self.rows += [["minutes", "kills", "kept", "steps", "made again"],
                      [str(minutes), str(kills), f"{100 * kept / (records[-1].time - first):.1f} %", str(steps), str(again)]]
        self.checks.append(f"each sample counts once ({loss[2]}), all parameters are finite, loss {loss[3]}")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


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
    """How the rank is named in a job that hangs, and what is said. A rank that uses a processor or a GPU may be at work: it
    is not ended, and is named to those who ask."""

    def ends():
        events = bed.ask("events", "x") or []
        return next((e["text"] for e in events if e["kind"] == "worker_failed"), None)

    try:
        return "yes", until("the hang ends the job", ends, 45)
    except Failed:
        verdict = (bed.ask("explain", "x", "--stacks") or {}).get("verdict") or {}
        if not verdict.get("known"):
            return "no", f"neither ended nor known: {verdict.get('reason')}"
        at_work = "at work" if verdict["busy"] else "still"
        return "when asked", f"rank {verdict['rank']} on {verdict['node']} is {at_work}: {verdict['reason']}"


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
