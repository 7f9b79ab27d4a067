"""A ResNet of three blocks, and pictures to learn. It normalises over each sample alone (GroupNorm), so that its
result does not depend on how a batch is divided; with BatchNorm use SyncBatchNorm."""

import torch
from torch import nn
from torch.utils.data import TensorDataset


class Block(nn.Module):
    def __init__(self, narrow, wide, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(narrow, wide, 3, stride, 1, bias=False), nn.GroupNorm(2, wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.GroupNorm(2, wide))  # fmt: skip
        self.skip = nn.Identity() if (narrow, stride) == (wide, 1) else nn.Conv2d(narrow, wide, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class ResNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 8, 3, padding=1), Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))  # fmt: skip
        self.double()


def pictures(n):
    """Noisy stripes; the class is their direction."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (n,), generator=random)
    angle = labels * torch.pi / 4
    y, x = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    along = x * angle.cos()[:, None, None] + y * angle.sin()[:, None, None]
    return TensorDataset((torch.sin(1.5 * along) + 0.5 * torch.randn(n, 12, 12, generator=random))[:, None].double(), labels)
