"""The rate of a world, in each schedule of torch: at any moment so many times that of the script alone."""

import gc
import unittest

import torch
from torch.optim import lr_scheduler as schedules

from elastic import rates

STEPS = 12
KINDS = {
    "constant": lambda opt: schedules.ConstantLR(opt, 0.5, 4),
    "cosine": lambda opt: schedules.CosineAnnealingLR(opt, 8, eta_min=0.01),
    "cycles": lambda opt: schedules.OneCycleLR(opt, [0.3, 0.03], total_steps=STEPS + 1),
    "exponential": lambda opt: schedules.ExponentialLR(opt, 0.9),
    "lambda": lambda opt: schedules.LambdaLR(opt, lambda step: 1 - step / 40),
    "linear": lambda opt: schedules.LinearLR(opt, 0.2, total_iters=6),
    "plateau": lambda opt: schedules.ReduceLROnPlateau(opt, factor=0.5, patience=1, min_lr=[0.02, 0.001]),
    "sequence": lambda opt: schedules.SequentialLR(
        opt, [schedules.LinearLR(opt, 0.1, total_iters=4), schedules.CosineAnnealingLR(opt, 8, eta_min=0.02)], [4]
    ),
    "step": lambda opt: schedules.StepLR(opt, 3),
    "warm": lambda opt: schedules.CosineAnnealingWarmRestarts(opt, 5, eta_min=0.02),
}


def make():
    nets = [torch.nn.Linear(2, 2) for _ in range(2)]
    return torch.optim.SGD([{"params": net.parameters(), "lr": lr} for net, lr in zip(nets, (0.1, 0.01))], lr=0.1, momentum=0.9)


def run(opt, schedule, begin_step=lambda step: None):
    """The rates of each step."""
    seen = []
    for step in range(STEPS):
        begin_step(step)
        seen.append([float(group["lr"]) for group in opt.param_groups])
        opt.step()
        schedule.step(*([1.0] if isinstance(schedule, schedules.ReduceLROnPlateau) else []))
    return seen


class Rates(unittest.TestCase):
    def test_each_schedule_goes_at_the_scale_of_its_world(self):
        self.addCleanup(gc.unfreeze)
        scales = [1.5] * 7 + [0.5] * (STEPS - 7)
        for kind, of in KINDS.items():
            rate = 0.3 if kind == "cycles" else 0.1
            opt = make()
            alone = run(opt, of(opt))
            for way in ("schedule before", "schedule after", "frozen", "loaded"):
                opt = make()
                if way == "schedule after":
                    rates.set_rate(opt, rate * scales[0], 1.0)
                schedule = of(opt)
                if way == "frozen":
                    rates.freeze()
                if way == "loaded":  # the checkpoint of another process holds the optimizer, and no schedule
                    rates.set_rate(opt, rate * scales[0], 1.0)
                    saved, opt = opt.state_dict(), make()
                    schedule = of(opt)
                    opt.load_state_dict(saved)
                mine = run(opt, schedule, lambda step: rates.set_rate(opt, rate * scales[step], 1.0))
                for step, (seen, expected) in enumerate(zip(mine, alone)):
                    for i in range(2):
                        self.assertAlmostEqual(seen[i], expected[i] * scales[step], 12, (kind, way, step, i))

    def test_a_group_that_is_added_late_has_the_scale_of_the_others(self):
        opt = make()
        schedule = KINDS["lambda"](opt)
        rates.set_rate(opt, 0.15, 1.0)
        opt.add_param_group({"params": torch.nn.Linear(2, 2).parameters(), "lr": 0.002, "initial_lr": 0.002})
        schedule.base_lrs.append(0.002)
        schedule.lr_lambdas.append(schedule.lr_lambdas[0])
        for rate in (0.15, 0.1, 0.05):
            rates.set_rate(opt, rate, 1.0)
            opt.step()
            schedule.step()
            for group, alone in zip(opt.param_groups, (0.1, 0.01, 0.002)):
                self.assertAlmostEqual(group["lr"], alone * (1 - schedule.last_epoch / 40) * rate / 0.1, 12)
