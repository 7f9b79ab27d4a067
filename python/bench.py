"""How long state.commit() takes: two ranks of torch on gloo train a small network.

    python3 bench.py [steps]

Needs torch. Prints the median and the 99th percentile of each rank in microseconds. The 99th
percentile is that of the steps in which the ranks vote about a stop.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 2
WARM = 200
"""Steps that are not counted: caches are cold and the process group is new."""


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        ranks = [start(rank, port, folder, steps) for rank in range(RANKS)]
        sys.exit(max(rank.wait() for rank in ranks))


def start(rank, port, folder, steps):
    here = str(pathlib.Path(__file__).parent)
    variables = {
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": here,
        "ELASTIC_CHECKPOINT_DIR": folder,
        "ELASTIC_DRAIN_FILE": os.path.join(folder, "drain"),
        "ELASTIC_PROGRESS_FILE": os.path.join(folder, f"progress-{rank}.jsonl"),
        "BENCH_STEPS": str(steps),
    }
    return subprocess.Popen([sys.executable, __file__], env={**os.environ, **variables})


def measure():
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import elastic

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    net = torch.nn.Linear(10, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model, inputs = DistributedDataParallel(net), torch.randn(256, 10)
    sampler = elastic.Sampler(10**9)
    state = elastic.State(model=net, optimizer=optimizer, sampler=sampler, save_every=None)
    times = []
    for _, _ in zip(range(WARM + int(os.environ["BENCH_STEPS"])), sampler):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        begin = time.perf_counter()
        state.commit(loss=loss)
        times.append(time.perf_counter() - begin)
    report(elastic.world().rank, sorted(times[WARM:]))
    torch.distributed.destroy_process_group()


def report(rank, times):
    at = {share: 1e6 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99)}
    print(f"rank {rank}: {len(times)} commits: median {at[0.5]:.1f} µs, 99th percentile {at[0.99]:.1f} µs")


if __name__ == "__main__":
    measure() if "BENCH_STEPS" in os.environ else main()
