"""JAX, data parallel over processes: a small network learns a sine.

    elastic run --np=1:3 --job-id=x python train.py --pause=0.5      on each node
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import elastic.jax

BATCH = 24  # samples of all ranks together: 1, 2, 3 and 4 ranks make the same steps

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--pause", type=float, default=0, help="seconds after each step, to have time for changes")
args = parser.parse_args()

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
world = elastic.jax.initialize()
mesh = Mesh(jax.devices(), "data")
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())

random = np.random.default_rng(0)
params = {"first": random.normal(size=(16, 48)) / 4, "second": random.normal(size=(48, 1)) / 7}
saved = elastic.jax.load() or {"step": 0, "params": params}
step, params = saved["step"], jax.device_put(saved["params"], whole)


def loss_of(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["first"]) @ params["second"] - y) ** 2)


@jax.jit
def train(params, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss


while step < args.steps:
    x = np.random.default_rng(step).normal(size=(BATCH, 16))
    mine = x[world.rank * BATCH // world.size : (world.rank + 1) * BATCH // world.size]
    x, y = (jax.make_array_from_process_local_data(split, part) for part in (mine, np.sin(mine.sum(1, keepdims=True))))
    params, loss = train(params, x, y)
    step += 1
    time.sleep(args.pause)
    elastic.progress(step=step, loss=float(loss), total_steps=args.steps)
    stop = elastic.jax.should_stop()
    if stop or step % 5 == 0:
        elastic.jax.save(step, params=params)
    if stop:
        break
x = np.random.default_rng(0).normal(size=(BATCH, 16))
loss = jax.jit(loss_of)(params, x, np.sin(x.sum(1, keepdims=True)))
if world.rank == 0:
    print(f"{step} steps: loss {float(loss):.12g}", flush=True)
