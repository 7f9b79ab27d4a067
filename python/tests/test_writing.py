"""Saves in the background: training goes on, and a save is whole or does not count."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

from elastic import State, environment, saving

from .worlds import being

ENDS = """
import os, sys, threading, elastic
from elastic import saving
dump = saving._dump
def slow(framework, content, path):
    dump(framework, content, path)
    if content["step"] == 2 and sys.argv[2] == "killed":
        print("written", flush=True)
        sys.stdin.read()
    if content["step"] == 2 and sys.argv[2] == "slow":
        threading.main_thread().join()
saving._dump = slow
s = elastic.State(checkpoint_dir=sys.argv[1], save_every=1, best=0)
print("loaded", s.load() and s.step, s.best, flush=True)
for _ in range(2 - s.step):
    s.best += 1
    s.end_step()
"""


class WritingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        context = being(environment.read({"ELASTIC_CHECKPOINT_DIR": self.dir}))
        self.addCleanup(context.__exit__, None, None, None)
        context.__enter__()
        self.goes_on = threading.Event()
        self.addCleanup(self.goes_on.set)

    def state(self, save_every):
        s = State(save_every=save_every, keep=9, seen=[0])
        self.addCleanup(s._course.keeping._writer.wait)
        self.addCleanup(self.goes_on.set)
        return s

    def slow(self):
        """Saves are written when goes_on is set."""
        dump = saving._dump

        def wait(framework, content, path):
            self.goes_on.wait(60)
            dump(framework, content, path)

        return unittest.mock.patch.object(saving, "_dump", wait)

    def marked(self):
        return [step for step in saving.steps(self.dir) if saving.is_whole(self.dir, step)]

    def test_training_goes_on_while_its_state_is_written(self):
        s = self.state("1ms")
        with self.slow():
            s._course.keeping._at -= 1
            s.end_step()
            for step in range(2, 5):  # one save at a time: those that are due by time are put off
                s.seen[0] = step
                s._course.keeping._at -= 1
                s.end_step()
            self.assertEqual((s.step, self.marked()), (4, []))
            self.goes_on.set()
            s._course.keeping.wait()
        self.assertEqual(self.marked(), [1])
        self.assertEqual(saving.read(saving.path_of(self.dir, 1))["seen"], [0], "the state of step 1")

    def test_saves_by_steps_and_by_name_wait_for_the_one_before(self):
        s = self.state(2)
        with self.slow():
            for _ in range(2):
                s.end_step()
            self.assertEqual(self.marked(), [])
            threading.Timer(0.05, self.goes_on.set).start()
            for _ in range(2):
                s.end_step()
        s.end_step()
        self.assertEqual(s.save(), saving.path_of(self.dir, 5))
        self.assertEqual(self.marked(), [5, 4, 2])
        self.assertIsNone(s.save(), "it is saved")

    def test_an_error_is_raised_in_the_next_call(self):
        s = self.state(1)
        with unittest.mock.patch.object(saving, "_dump", side_effect=TypeError("cannot pickle")):
            s.end_step()
            with self.assertRaisesRegex(TypeError, "cannot pickle"):
                s._course.keeping._writer._thread.join()
                s.end_step()
        s.end_step()
        s._course.keeping.wait()
        self.assertEqual(self.marked(), [3])

    def test_a_full_disk_is_reported_and_the_step_not_taken_for_saved(self):
        s = self.state(1)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            with unittest.mock.patch.object(saving, "_dump", side_effect=OSError("no space left")):
                s.end_step()
                s._course.keeping.wait()
        self.assertIn("step 1 is not saved: no space left; training goes on", said.getvalue())
        self.assertEqual(s.save(), saving.path_of(self.dir, 1))

    def test_what_cannot_be_copied_is_written_at_once(self):
        class Held:
            def __deepcopy__(self, memo):
                raise RuntimeError("no copy")

            def __reduce__(self):
                return int, (7,)

        s = self.state(1)
        s.seen = Held()
        s.end_step()
        self.assertEqual((self.marked(), saving.read(saving.path_of(self.dir, 1))["seen"]), ([1], 7))

    def test_the_save_of_a_state_that_was_replaced_gets_no_mark(self):
        s = self.state(1)
        with self.slow():
            s.end_step()
            s._course.take(s, {"seen": [9], "step": 1, "samples": 32})
            self.goes_on.set()
            s._course.keeping.wait()
            self.assertEqual(saving.steps(self.dir), [])
            self.assertEqual(s.save(), saving.path_of(self.dir, 1))
        self.assertEqual(saving.read(saving.path_of(self.dir, 1))["seen"], [9])

    def test_load_waits_for_what_is_written(self):
        s = self.state(1)
        with self.slow():
            s.end_step()
            s.seen[0] = 5
            threading.Timer(0.05, self.goes_on.set).start()
            self.assertTrue(s.load())
        self.assertEqual((s.step, s.seen), (1, [0]))

    def run_to_its_end(self, how):
        helper = os.path.dirname(os.path.dirname(os.path.abspath(saving.__file__)))
        return subprocess.Popen(
            [sys.executable, "-c", ENDS, self.dir, how],
            env={**os.environ, "PYTHONPATH": helper}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def test_the_end_of_the_process_waits(self):
        with self.run_to_its_end("slow") as process:
            process.communicate()
        self.assertEqual((process.returncode, self.marked()), (0, [2, 1]))
        mark = json.loads(pathlib.Path(self.dir, "step-2", ".elastic-commit").read_text())
        self.assertEqual(mark["step"], 2)

    def test_a_kill_before_the_mark_leaves_no_save(self):
        with self.run_to_its_end("killed") as process:
            self.assertEqual([process.stdout.readline() for _ in range(2)], ["loaded False 0\n", "written\n"])
            process.send_signal(signal.SIGKILL)
        self.assertEqual((saving.steps(self.dir), self.marked()), ([2, 1], [1]))
        with self.run_to_its_end("whole") as process:
            self.assertEqual(process.communicate()[0], "loaded 1 1\n")
        self.assertEqual(saving.read(saving.path_of(self.dir, 2))["best"], 2)
