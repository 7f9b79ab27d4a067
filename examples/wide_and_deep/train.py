"""Wide & deep on Paddle's parameter servers: a table of embeddings on the servers, trainers that
read their samples from files and send gradients whenever they have some.

    elastic run --server_num=1 --worker_num=2 train.py
    elastic run --np=2 --job-id=x --server_num=2 --worker_num=3 --save-from=all train.py   on each node

The lines that make it elastic end in "# elastic". Everything else is ordinary Paddle 2.6.2.
"""

import argparse
import glob
import os
import shutil
import tempfile
import threading
import time

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

IDS, FIELDS, WIDTH = 50, 3, 8  # ids of one field, fields of a sample, numbers of an embedding
BATCH, BATCHES = 64, 20  # samples of a batch, batches of a pass


def network():
    """The inputs in the order of a line of samples, the loss, and its sum since the pass began."""
    dense = paddle.static.data("dense", [None, 4], "float32")
    ids = [paddle.static.data(f"field{i}", [None, 1], "int64", lod_level=1) for i in range(FIELDS)]
    label = paddle.static.data("label", [None, 1], "int64")
    attr = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Uniform(-0.1, 0.1))
    deep = [paddle.static.nn.sparse_embedding(i, size=[IDS * FIELDS, WIDTH], param_attr=attr) for i in ids]
    deep = paddle.concat([paddle.reshape(e, [-1, WIDTH]) for e in deep] + [dense], axis=1)
    deep = paddle.static.nn.fc(paddle.static.nn.fc(deep, 16, activation="relu"), 1)
    click = paddle.nn.functional.sigmoid(deep + paddle.static.nn.fc(dense, 1))
    loss = paddle.mean(paddle.nn.functional.log_loss(click, paddle.cast(label, "float32")))
    total = paddle.static.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    paddle.assign(total + loss, output=total)
    return [dense, *ids, label], loss, total


def strategy():
    s = fleet.DistributedStrategy()
    s.a_sync = True
    s.sparse_table_configs = {"table": {"table_parameters.table.shard_num": 8}}  # files of a save
    return s


def samples(path, seed):
    """Writes the samples of one pass: for each slot the count of its numbers, and the numbers."""
    taste = np.random.RandomState(7).randn(IDS * FIELDS)
    random = np.random.RandomState(seed)
    with open(path, "w") as f:
        for _ in range(BATCH * BATCHES):
            dense = random.rand(4)
            ids = [i * IDS + random.randint(IDS) for i in range(FIELDS)]
            label = int(taste[ids].sum() + dense[0] > 0.5)
            f.write("4 " + " ".join(f"{x:.5f}" for x in dense))
            f.write("".join(f" 1 {i}" for i in ids) + f" 1 {label}\n")


def tidy(keep):
    """Removes old saves of this server, in an endless loop."""
    while True:
        saves = sorted(glob.glob("step-*"), key=lambda name: int(name[5:]))
        for old in saves[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
        time.sleep(2)


def serve(resume, directory):
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)  # paths that trainers send are relative to it
    threading.Thread(target=tidy, args=[3], daemon=True).start()
    fleet.init_server()
    if resume:
        for table in (0, 1):  # the embeddings, and the dense weights
            fleet.fleet._runtime_handle._server.load_sparse(resume, "0", table)
    fleet.run_server()


def train(args, inputs, total, first):
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    index, scratch = fleet.worker_index(), tempfile.mkdtemp()
    print(f"generation {os.environ.get('ELASTIC_GENERATION', 1)} trainer {index} of {fleet.worker_num()}: "
          f"from pass {first}", flush=True)
    for n in range(first + 1, args.passes + 1):
        path = os.path.join(scratch, str(n))
        samples(path, seed=1000 * n + index)
        data = paddle.distributed.QueueDataset()
        data.init(batch_size=BATCH, thread_num=1, use_var=inputs, pipe_command="cat")
        data.set_filelist([path])
        sum_ = paddle.static.global_scope().find_var(total.name).get_tensor()
        sum_.set(np.zeros(1, "float32"), paddle.CPUPlace())
        executor.train_from_dataset(paddle.static.default_main_program(), data)
        os.remove(path)
        print(f"pass {n}: loss {np.array(sum_)[0] / BATCHES:.4f}", flush=True)
        if index == 0 and (n % args.save_every == 0 or n == args.passes):
            fleet.save_persistables(executor, f"step-{n}", mode=0)  # each server writes its part
        time.sleep(args.pause)
    shutil.rmtree(scratch)
    fleet.stop_worker()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0, help="seconds after each pass, to have time for changes")
    parser.add_argument("--rate", type=float, default=0.05)
    args = parser.parse_args()

    resume = os.environ.get("ELASTIC_RESUME_FROM")  # elastic
    first = int(os.environ.get("ELASTIC_RESUME_STEP") or 0)  # elastic
    directory = os.environ.get("ELASTIC_CHECKPOINT_DIR", "checkpoints")  # elastic
    if resume or os.environ.get("ELASTIC_RESTARTED"):  # elastic
        os.environ["TEST_MODE"] = "1"  # the servers have weights: trainer 0 must not send initial ones
    paddle.enable_static()
    fleet.init(is_collective=False)
    inputs, loss, total = network()
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(args.rate), strategy())
    optimizer.minimize(loss)
    if fleet.is_server():
        serve(resume, directory)
    else:
        train(args, inputs, total, first)


if __name__ == "__main__":
    main()
