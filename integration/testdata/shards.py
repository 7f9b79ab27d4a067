# A script whose ranks each save a shard on their own disk and never speak with each other: of each step, which
# they reach at different times. What is loaded must be all shards of one step, whatever the world was.
import glob
import json
import os
import shutil
import sys
import time

PARTS, EVERY = 12, 10
finish, pause = sys.argv[1], float(sys.argv[2])
padding = int(sys.argv[3]) if len(sys.argv) > 3 else 0  # bytes in each shard that mean nothing
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where, resume = os.environ["ELASTIC_CHECKPOINT_DIR"], os.environ["ELASTIC_RESUME_FROM"]


def after(step, i):
    return step * 1000 + i


def load():
    values, steps = {}, set()
    for path in glob.glob(os.path.join(resume, "shard_*.json")):
        with open(path) as f:
            shard = json.load(f)
        steps.add(shard["step"])
        for i, value in shard["values"].items():
            if values.setdefault(i, value) != value:
                sys.exit(f"MIXED: two values of {i} in {resume}")
    if len(steps) != 1 or len(values) != PARTS:
        sys.exit(f"MIXED: {resume} has the steps {sorted(steps)} and {len(values)} of {PARTS} values")
    step = steps.pop()
    for i, value in values.items():
        if value != after(step, int(i)):
            sys.exit(f"MIXED: {i} is {value} after step {step}")
    return step


def save(step):
    name = os.path.join(where, f"step-{step}")
    os.makedirs(name + ".tmp")
    shard = {"step": step, "values": {str(i): after(step, i) for i in range(PARTS) if i % world == rank},
             "padding": os.urandom(padding // 2).hex()}
    with open(os.path.join(name + ".tmp", f"shard_{rank}.json"), "w") as f:
        json.dump(shard, f)
    os.rename(name + ".tmp", name)
    shutil.rmtree(os.path.join(where, f"step-{step - 5 * EVERY}"), ignore_errors=True)


step = load() if resume else 0
print(f"generation {os.environ['ELASTIC_GENERATION']} rank {rank} of {world}: from step {step}", flush=True)
for name in glob.glob(os.path.join(where, "step-*.tmp")):
    shutil.rmtree(name)
while step % EVERY or not os.path.exists(finish):
    time.sleep(pause)
    step += 1
    if step % EVERY == 0:
        save(step)
