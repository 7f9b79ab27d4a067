# A script whose ranks save in the form of DeepSpeed's ZeRO-1, each on the disk of its node, and read what
# DeepSpeed reads: their own shard of the optimizer, and the model of rank 0. While the file hold is there
# nothing is saved.
import json
import os
import shutil
import sys
import time

EVERY = 10
finish, hold, padding = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where, resume = os.environ["ELASTIC_CHECKPOINT_DIR"], os.environ["ELASTIC_RESUME_FROM"]


def shard(of):
    return f"bf16_zero_pp_rank_{of}_mp_rank_00_optim_states.pt"


def read(path):
    try:
        with open(path) as f:
            saved = json.load(f)
    except FileNotFoundError:
        sys.exit(f"MISSING: rank {rank} of {world} does not find {path}")
    if f"global_step{saved['step']}" != os.path.basename(resume):
        sys.exit(f"MIXED: {path} is of step {saved['step']}")
    return saved


def load():
    top, tag = os.path.split(resume)
    with open(os.path.join(top, "latest")) as f:
        if f.read() != tag:
            sys.exit(f"MIXED: latest does not name {tag}")
    model = read(os.path.join(resume, "mp_rank_00_model_states.pt"))
    for of in [rank] if model["world"] == world else range(model["world"]):
        if read(os.path.join(resume, shard(of)))["rank"] != of:
            sys.exit("MIXED: a shard of another rank")
    there = [of for of in range(model["world"]) if os.path.exists(os.path.join(resume, shard(of)))]
    print(f"generation {os.environ['ELASTIC_GENERATION']} rank {rank}: shards {there}", flush=True)
    return model["step"]


def write(name, **what):
    with open(name, "w") as f:
        json.dump(what, f)


def save(step):
    name = os.path.join(where, f"global_step{step}")
    os.makedirs(name, exist_ok=True)
    write(os.path.join(name, shard(rank)), step=step, rank=rank, padding=os.urandom(padding // 2).hex())
    if rank == 0:
        write(os.path.join(name, "mp_rank_00_model_states.pt"), step=step, world=world)
        with open(os.path.join(where, "latest"), "w") as f:
            f.write(f"global_step{step}")
    shutil.rmtree(os.path.join(where, f"global_step{step - 5 * EVERY}"), ignore_errors=True)


step = load() if resume else int(os.environ.get("ELASTIC_RESUME_STEP") or 0)
print(f"generation {os.environ['ELASTIC_GENERATION']} rank {rank} of {world}: from step {step}", flush=True)
held = False
while step % EVERY or not os.path.exists(finish):
    time.sleep(0.05)
    if os.path.exists(hold) and step % EVERY == 0:
        if not held:
            print(f"rank {rank} holds at step {step}", flush=True)
        held = True
        continue
    step += 1
    if step % EVERY == 0:
        save(step)
