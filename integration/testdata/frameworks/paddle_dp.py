# Data parallel training with Paddle on CPUs, as its documents write it: nothing here knows Elastic.
import argparse
import os
import time

import paddle
import paddle.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--steps", type=int)
parser.add_argument("--pause", type=float, default=0)
args = parser.parse_args()

dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
paddle.seed(0)
layer = paddle.nn.Linear(8, 1)
model = paddle.DataParallel(layer)
optimizer = paddle.optimizer.SGD(learning_rate=0.05, parameters=model.parameters())
path, step = os.path.join(args.out, "model.pdparams"), 0
if os.path.exists(path):
    saved = paddle.load(path)
    layer.set_state_dict(saved["model"])
    step = saved["step"]
print(f"rank {rank} of {world} begins at step {step}", flush=True)
while step < args.steps:
    x = paddle.randn([16, 8])
    loss = ((model(x) - x.sum(axis=1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    step += 1
    time.sleep(args.pause)
    if step % 5 == 0 and rank == 0:
        paddle.save({"model": layer.state_dict(), "step": step}, path + ".tmp")
        os.replace(path + ".tmp", path)
print(f"rank {rank} of {world} ends at step {step} with loss {float(loss):.4f}", flush=True)
