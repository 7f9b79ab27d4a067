"""Wide & deep on parameter servers, for Paddle 2.6.2.

Each process of the job runs this file: servers keep the tables, trainers train. The tables are saved
every --save-every steps, by all trainers together, and a new generation loads them.
"""

import argparse
import json
import os

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

DENSE, SLOTS, VOCABULARY, WIDTH = 13, 8, 1000, 8


def network():
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    slots = [paddle.static.data(f"slot{i}", [None, 1], "int64") for i in range(SLOTS)]
    label = paddle.static.data("label", [None, 1], "int64")

    def embed(ids):
        rows = paddle.static.nn.sparse_embedding(
            ids, [VOCABULARY, WIDTH], param_attr=paddle.ParamAttr(name="table"))
        return paddle.reshape(rows, [-1, WIDTH])

    deep = paddle.concat([embed(ids) for ids in slots] + [dense], axis=1)
    for width in (32, 16):
        deep = paddle.static.nn.fc(deep, width, activation="relu")
    wide = paddle.static.nn.fc(dense, 1)
    score = paddle.static.nn.fc(paddle.concat([deep, wide], axis=1), 2, activation="softmax")
    return [dense, *slots, label], paddle.mean(paddle.nn.functional.cross_entropy(
        score, label, use_softmax=False))


def batch(step, trainer, size=64):
    """Rows that are the same for the same step and trainer, whatever happened before."""
    random = np.random.default_rng([step, trainer])
    dense = random.standard_normal((size, DENSE)).astype("float32")
    ids = random.integers(0, VOCABULARY, (SLOTS, size, 1))
    label = (dense[:, :1] + (ids[0] % 2) - 0.5 > 0).astype("int64")
    feed = {f"slot{i}": ids[i] for i in range(SLOTS)}
    return {"dense": dense, "label": label, **feed}


def first_step():
    """Where to begin, and the checkpoint to load first.

    A trainer that was started again alone goes on after the last step that it told, with the
    tables that the servers have. A new generation begins at its checkpoint.
    """
    if os.environ.get("ELASTIC_RESTARTED"):
        try:
            with open(os.environ["ELASTIC_PROGRESS_FILE"]) as lines:
                return json.loads(lines.readlines()[-1])["step"] + 1, ""
        except (OSError, IndexError):
            return 1, ""
    return int(os.environ.get("ELASTIC_RESUME_STEP") or 0) + 1, os.environ.get("ELASTIC_RESUME_FROM", "")


def save(exe, step):
    """Every trainer calls it: the servers write their tables when all have."""
    to = os.path.join(os.environ["ELASTIC_CHECKPOINT_DIR"], f"step-{step}")
    fleet.save_persistables(exe, to, mode=0)
    if fleet.is_first_worker():
        with open(os.path.join(to, ".writing"), "w") as f:
            json.dump({"step": step}, f)
        os.rename(f.name, os.path.join(to, ".elastic-commit"))


def tell(step, loss):
    with open(os.environ["ELASTIC_PROGRESS_FILE"], "a") as f:
        f.write(json.dumps({"step": step, "loss": loss}) + "\n")
    print(f"TRAIN ---> step: {step} loss: {loss:.5f}", flush=True)


def train(args, feeds, loss):
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    begin, resume = first_step()
    if resume:
        fleet.load_model(resume, mode=0)
    print(f"trainer {fleet.worker_index()} of {fleet.worker_num()}: from step {begin}, tables of {resume or 'nothing'}",
          flush=True)
    for step in range(begin, args.steps + 1):
        feed = batch(step, fleet.worker_index())
        value, = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss])
        if args.save_every and step % args.save_every == 0:
            save(exe, step)
        tell(step, float(np.mean(value)))
        if args.pause:
            import time
            time.sleep(args.pause)
    fleet.stop_worker()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--save-every", type=int, default=50)
    options.add_argument("--pause", type=float, default=0, help="seconds after each step")
    args = options.parse_args()
    paddle.enable_static()
    paddle.seed(1)
    fleet.init(is_collective=False)
    feeds, loss = network()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.05), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        train(args, feeds, loss)


if __name__ == "__main__":
    main()
