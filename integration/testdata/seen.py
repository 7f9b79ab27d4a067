# Leaves what a launcher gave this worker, and prints a line on each stream.
import json
import os
import sys

names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
         "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RESTART_COUNT", "OMP_NUM_THREADS"]
seen = {name: os.environ.get(name, "") for name in names}
seen["args"] = " ".join(sys.argv[1:])
seen["name"] = __name__
seen["master"] = str(bool(os.environ["MASTER_ADDR"]) and 0 < int(os.environ["MASTER_PORT"]) < 65536)
with open(f"seen.{seen['RANK']}", "w") as f:
    json.dump(seen, f)
print("out", seen["RANK"], flush=True)
print("err", seen["RANK"], file=sys.stderr, flush=True)
