import json
import os
import pathlib
import tempfile
import threading
import unittest

from elastic.reporting import Reporter, detached


class Tensor:
    """What torch calls a tensor, as far as the reporter cares."""

    def __init__(self, value, reads):
        self.value, self.reads = value, reads

    def detach(self):
        return self

    def __float__(self):
        self.reads.append(threading.current_thread().name)
        return self.value


class ReporterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "progress.jsonl")

    def lines(self):
        return [json.loads(line) for line in pathlib.Path(self.path).read_text().splitlines()]

    def test_the_newest_is_written(self):
        r = Reporter(self.path, interval=30)
        for step in range(1000):
            r.report({"step": step, "samples": 2 * step})
        r.close()
        self.assertEqual(self.lines()[-1], {"step": 999, "samples": 1998})
        self.assertLess(len(self.lines()), 1000, "figures that are overtaken are not written")

    def test_a_tensor_is_read_in_the_background(self):
        reads = []
        r = Reporter(self.path)
        r.report({"step": 1, "loss": detached(Tensor(0.5, reads))})
        r.close()
        self.assertEqual(self.lines(), [{"step": 1, "loss": 0.5}])
        self.assertEqual(reads, ["elastic-progress"])

    def test_a_loss_that_is_no_number(self):
        r = Reporter(self.path)
        r.report({"step": 1, "loss": float("nan")})
        r.close()
        self.assertIn("NaN", pathlib.Path(self.path).read_text())

    def test_a_loss_that_was_no_number_has_its_step(self):
        r = Reporter(self.path, interval=30)
        for step, loss in enumerate((0.5, float("nan"), float("inf"), 0.25)):
            r.report({"step": step, "loss": loss})
        r.close()
        lines = [line for line in self.lines() if line["step"] > 0]
        self.assertEqual([line["step"] for line in lines], [1, 3])
        self.assertIn("NaN", pathlib.Path(self.path).read_text())
        self.assertEqual(lines[-1]["loss"], 0.25)

    def test_a_figure_that_is_no_number_is_left_out(self):
        r = Reporter(self.path)
        r.report({"step": 1, "samples": Tensor(32.0, []), "loss": [1, 2], "note": "text"})
        r.close()
        self.assertEqual(self.lines(), [{"step": 1, "samples": 32.0}])

    def test_nothing_is_raised(self):
        for path in (None, "/nonexistent/progress.jsonl", os.path.dirname(self.path)):
            r = Reporter(path, interval=0)
            for value in (1, "no number", object()):
                r.report({"loss": value})
            r.close()

    def test_a_file_that_takes_nothing_blocks_nobody(self):
        os.mkfifo(self.path)  # its open waits for a reader
        r = Reporter(self.path, interval=0)
        for step in range(100):
            r.report({"step": step})
        r.close()
