"""Real processes and signals."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

PACKAGE = str(pathlib.Path(__file__).parent.parent)


class StoppingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.drain = os.path.join(self.dir, "drain")

    def start(self, body, **variables):
        """Run a script that prints "ready" when a signal may come."""
        env = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": PACKAGE,
            "ELASTIC_DRAIN_FILE": self.drain,
            "ELASTIC_CHECKPOINT_DIR": self.dir,
            "ELASTIC_PROGRESS_FILE": os.path.join(self.dir, "progress.jsonl"),
            **variables,
        }
        script = "import elastic, os, sys, time\n" + textwrap.dedent(body)
        process = subprocess.Popen(
            [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n", process.stderr)
        return process

    def ask(self, process, sign=signal.SIGTERM):
        pathlib.Path(self.drain + ".tmp").write_text('{"reason":"scale","grace_seconds":30}')
        os.rename(self.drain + ".tmp", self.drain)
        if sign:
            process.send_signal(sign)

    COMMITS = """
        state = elastic.State(save_every=None, sampler=elastic.Sampler(1000))
        print("ready", flush=True)
        for epoch in state.sampler.epochs(10**9):
            for indices in state.sampler:
                time.sleep(0.001)
                state.commit(loss=0.5)
    """

    def test_commit_saves_and_stops(self):
        for sign in (signal.SIGTERM, None):
            with self.subTest(signal=sign):
                process = self.start(self.COMMITS)
                self.ask(process, sign)
                self.assertEqual(process.wait(120), 143)
                marks = list(pathlib.Path(self.dir).glob("step-*/.elastic-commit"))
                self.assertTrue(marks)
                last = pathlib.Path(self.dir, "progress.jsonl").read_text().splitlines()[-1]
                self.assertIn(json.loads(last)["step"], [json.loads(m.read_text())["step"] for m in marks])
                os.remove(self.drain)

    def test_a_lost_world_ends_a_blocked_process_at_once(self):
        process = self.start(
            """
            import signal
            elastic.State(save_every=None)
            signal.pthread_sigmask(signal.SIG_BLOCK, [])
            print("ready", flush=True)
            import threading
            lock = threading.Lock(); lock.acquire()
            while True:
                try: lock.acquire()
                except BaseException: pass
            """
        )
        pathlib.Path(self.drain + ".over").touch()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 143)

    SIGNALLED = """
        import signal
        from elastic import stopping
        state = elastic.State(save_every=None, sampler=elastic.Sampler(1000))
        stopping.WORD_LIMIT = float(os.environ["LIMIT"])
        os.kill(os.getpid(), signal.SIGTERM)
        for epoch in state.sampler.epochs(10**9):
            for indices in state.sampler:
                time.sleep(0.01)
                state.commit(loss=0.5)
                if state.step == 50:
                    print("ready", flush=True)
    """

    def test_training_goes_on_after_the_schedulers_signal_until_the_agent_asks(self):
        process = self.start(self.SIGNALLED, LIMIT="120")
        self.ask(process)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 143, err)
        self.assertTrue(list(pathlib.Path(self.dir).glob("step-*/.elastic-commit")))

    def test_a_signal_that_the_agent_never_explains_ends_the_process(self):
        process = self.start(self.SIGNALLED, LIMIT="1.5")
        self.assertEqual(process.wait(120), 143)
        self.assertEqual(list(pathlib.Path(self.dir).glob("step-*")), [])

    def test_should_stop_alone(self):
        process = self.start(
            """
            elastic.should_stop()
            print("ready", flush=True)
            while not elastic.should_stop():
                time.sleep(0.001)
            print("saved")
            """
        )
        self.ask(process)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (143, "saved\n"), err)

    def test_children_do_not_speak_for_it(self):
        process = self.start(
            """
            import signal
            elastic.State(save_every=None)
            child = os.fork()
            if child == 0:
                time.sleep(60)
            os.kill(child, signal.SIGTERM)
            print("ready", flush=True)
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
            time.sleep(0.2)
            sys.exit(7)
            """
        )
        self.assertEqual(process.wait(120), 7)

    def test_the_scripts_own_handler_stays(self):
        process = self.start(
            """
            import signal
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
            elastic.State(save_every=None)
            print("ready", flush=True)
            time.sleep(60)
            """
        )
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), 9)

    def test_outside_of_elastic_sigterm_is_what_it_always_was(self):
        process = self.start(self.COMMITS, ELASTIC_DRAIN_FILE="", ELASTIC_CHECKPOINT_DIR="")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(120), -signal.SIGTERM)
