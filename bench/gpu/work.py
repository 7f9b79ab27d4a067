"""What the nodes of `make gpu` run: one of four programs, on a GPU with NCCL, else on processors with gloo.

    work.py train    a small net in float64, whose end is compared with an undisturbed run
    work.py hang     the same without a helper; one rank hangs in the way that HOW says
    work.py save     a state of BYTES on the device, saved three times
    work.py llm      a language model with Adam

Each step leaves a line in the file "records": generation, rank, size, process, step, time.
"""

import hashlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

ON_GPU = torch.cuda.is_available()
BACKEND = "nccl" if ON_GPU else "gloo"
if ON_GPU:
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
DEVICE = torch.device("cuda", torch.cuda.current_device()) if ON_GPU else torch.device("cpu")
WAY = os.environ.get("WAY", "restart")
PACE = float(os.environ.get("PACE", "0"))


def record(world, step):
    line = f"{world.generation} {world.rank} {world.size} {os.getpid()} {step} {time.time()}\n"
    with open("records", "a") as file:
        file.write(line)


def number(name, otherwise):
    """The number that a file has, which is written long before it is reached."""
    try:
        with open(name) as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return otherwise


def run(state, loop):
    """Call loop in one world after the other, in this process or in one that is started again."""
    import elastic

    if WAY == "in place":
        elastic.train(state, backend=BACKEND)(loop)()
        return
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(BACKEND)
    state.load()
    loop(elastic.world())


def digest(module):
    sums = [p.detach().double().abs().sum().item() for p in module.parameters()]
    exact = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in module.parameters())).hexdigest()
    return f"{sum(sums):.17g} {exact[:16]}"


def train():
    import elastic

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8)).double().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    data = torch.randn(960, 64, generator=torch.Generator().manual_seed(1), dtype=torch.double).to(DEVICE)
    elastic.world(batch_size=48)
    directory = os.environ.get("SAVES")  # without the launcher's
    state = elastic.State(
        model=net, optimizer=optimizer, sampler=elastic.Sampler(len(data), seed=0), save_every=5, checkpoint_dir=directory
    )

    def loop(world):
        alone = not dist.is_initialized()
        model = net if alone else nn.parallel.DistributedDataParallel(net)
        while state.step < number("target", 1 << 60):
            for indices in state.sampler:
                optimizer.zero_grad()
                some = indices or [0]
                wanted = data[some, :8].argmax(1)
                (nn.functional.cross_entropy(model(data[some]), wanted) * world.loss_weight).backward()
                optimizer.step()
                state.end_step()
                record(world, state.step)
                if state.step >= number("target", 1 << 60):
                    break
                time.sleep(PACE)

    run(state, loop)
    print(f"through: {state.step} {digest(net)}", flush=True)


def hang_here(how):
    """Hang in one of ten ways."""
    if how == "loader":
        queue.Queue().get()
    elif how == "lock":
        mutex = threading.Lock()
        mutex.acquire()
        mutex.acquire()
    elif how == "save":
        os.mkfifo("save.pipe")
        open("save.pipe", "w")  # never read
    elif how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "socket":
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.accept()
    elif how == "sleep":
        time.sleep(1 << 20)
    elif how == "child":
        subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
    elif how == "spin":
        while True:
            pass
    elif how == "device":
        while True:  # work without end: of the GPU, where there is one
            torch.cuda._sleep(1 << 40) if ON_GPU else torch.ones(1 << 20).sum()
            if ON_GPU:
                torch.cuda.synchronize()
    elif how == "other collective":
        mine = torch.ones(1 << 12, device=DEVICE)
        dist.all_gather([torch.empty_like(mine) for _ in range(dist.get_world_size())], mine)
        if ON_GPU:
            torch.cuda.synchronize()


def hang():
    dist.init_process_group(BACKEND)
    rank, first = dist.get_rank(), os.environ["ELASTIC_GENERATION"] == "1"
    for step in range(6):
        if first and step == 3 and rank == int(os.environ["BAD"]):
            hang_here(os.environ["HOW"])
        gradient = torch.ones(1 << 12, device=DEVICE)
        dist.all_reduce(gradient)
        if gradient[0].item() != dist.get_world_size():
            raise SystemExit("a reduction is wrong")
    print("through", flush=True)


def save():
    import elastic

    count = int(os.environ["BYTES"])
    parts = {f"part{i}": torch.full((count // 64 // 4,), float(i), device=DEVICE) for i in range(64)}
    dist.init_process_group(BACKEND)
    state = elastic.State(parts=parts, save_every=None)
    state.load()
    saves, left = 0, None
    for _ in state.steps(range(1 << 40)):
        if left is not None and elastic.world().rank == 0:
            print(f"saved: {state.step} stall {time.perf_counter() - left:.6f} at {time.time()}", flush=True)
        left = None
        time.sleep(0.01)
        state.end_step()
        if os.path.exists(f"save{saves + 1}"):  # by the runner, when the save before has its copies
            saves += 1
            state.save()  # made where the step ends, in the background
            left = time.perf_counter()
        if os.path.exists("end"):
            break
    print("through", flush=True)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mixed(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        weights = (q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5 + mask).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


def llm():
    import elastic

    width, layers, length, batch = (1024, 16, 512, 8) if ON_GPU else (64, 2, 32, 4)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Embedding(8192, width), *[Block(width, width // 64 or 1) for _ in range(layers)], nn.Linear(width, 8192)
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    elastic.world(batch_size=batch)
    sampler = elastic.Sampler(1 << 16, seed=0)
    state = elastic.State(model=net, optimizer=optimizer, sampler=sampler, save_every="5s")
    state.load()
    print(f"model: {sum(p.numel() for p in net.parameters())} parameters, from step {state.step}", flush=True)
    world, loss = elastic.world(), torch.zeros(())
    for indices in sampler:
        tokens = (torch.tensor(indices)[:, None] * 31 + torch.arange(length + 1)).to(DEVICE) % 8192  # texts that count up
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=ON_GPU):
            loss = nn.functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        state.end_step(loss=loss)
        record(world, state.step)
        if os.path.exists("end"):
            break
    whole = all(bool(p.isfinite().all()) for p in net.parameters())
    print(f"through: {state.step} steps {state.samples} samples loss {loss.item():.4f} finite {whole}", flush=True)


{"train": train, "hang": hang, "save": save, "llm": llm}[sys.argv[1]]()
