"""The state of one rank goes as tensors to the ranks that need it, over a real group of processors."""

import os
import subprocess
import sys
import tempfile
import unittest

import torch

import elastic
from elastic import sharing

RANK = """
import sys, torch, torch.distributed as dist
from elastic import sharing
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(path, 4), rank=rank, world_size=4)
content = {
    "net": {"w": torch.arange(12.0).reshape(3, 4).t(), "n": torch.tensor(7), "none": torch.empty(0)},
    "list": [torch.ones(3, dtype=torch.bfloat16), torch.tensor([True, False]), torch.tensor([1 + 2j])],
    "parameter": torch.nn.Parameter(torch.ones(2)), "step": 9,
}
got = []
if rank == 1:
    sharing.give(content, 1, [0, 3], "cpu")
elif rank == 2:
    sharing.watch(1, "cpu")
else:
    taken = sharing.take(1, "cpu", lambda done, total: got.append((done, total)))
    assert str(taken) == str(content), taken
    assert got == [(done, 80) for done in (48, 56, 62, 64, 72, 80)], got
dist.barrier()
print("through")
"""


class SharingTest(unittest.TestCase):
    def test_the_ranks_that_need_a_state_get_all_of_it(self):
        helper = os.path.dirname(os.path.dirname(elastic.__file__))
        with tempfile.TemporaryDirectory() as folder:
            ranks = [
                subprocess.Popen(
                    [sys.executable, "-c", RANK, str(rank), os.path.join(folder, "store")],
                    env={**os.environ, "PYTHONPATH": helper}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
                for rank in range(4)
            ]
            for rank in ranks:
                out, err = rank.communicate(timeout=300)
                # gloo of torch 2.10 writes to stdout, too
                self.assertEqual((rank.returncode, out.splitlines()[-1:]), (0, ["through"]), err[-2000:])

    def test_tensors_are_not_in_the_pickle(self):
        data, tensors = sharing.apart({"w": torch.ones(1 << 20), "step": 3})
        self.assertLess(len(data), 1000)
        self.assertEqual(len(tensors), 1)
