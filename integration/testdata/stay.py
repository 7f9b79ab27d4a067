# Trains a small net with the helper's training function, in float64, and says in which world each process is. It
# ends at the step that the file "target" names, which is written long before that step.
import os
import time

import torch

import elastic

torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).double()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
data = torch.randn(960, 16, generator=torch.Generator().manual_seed(1), dtype=torch.double)
wanted = data[:, :4].argmax(1)
loss_of = torch.nn.CrossEntropyLoss()
elastic.world(batch_size=48)
extra = {"extra": torch.zeros(int(os.environ["EXTRA"]), dtype=torch.uint8)} if "EXTRA" in os.environ else {}
state = elastic.State(
    model=net, optimizer=optimizer, sampler=elastic.Sampler(len(data), seed=0), save_every=os.environ.get("SAVE_EVERY"), **extra
)
stepped = 0  # when the last step ended
pace = float(os.environ.get("PACE", "0.01"))


def target():
    try:
        with open("target") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 1 << 60


@elastic.train(state, backend="gloo")
def loop(world):
    global stepped
    called = time.time_ns()
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    reported = False
    while state.step < target():
        for indices in state.sampler:
            optimizer.zero_grad()
            if indices:
                loss = loss_of(ddp(data[indices]), wanted[indices]) * world.loss_weight
            else:
                loss = ddp(data[:1]).sum() * 0
            loss.backward()
            optimizer.step()
            state.end_step(loss=loss.item())
            before, stepped = stepped, time.time_ns()
            if not reported:
                print(f"generation {world.generation} rank {world.rank} of {world.size} pid {os.getpid()}: step {state.step}"
                      f" at {stepped} after {before} called {called}", flush=True)
                reported = True
            if state.step >= target():
                break
            time.sleep(pace)


loop()
print(f"through: {state.step} steps, {sum(p.abs().sum().item() for p in net.parameters()):.9f}", flush=True)
