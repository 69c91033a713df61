# An endless stream of samples: no length, no epochs, a fixed number of steps.
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class NoisyWaves(IterableDataset):
    def __init__(self, points=32, seed=0):
        self.points, self.seed = points, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        t = torch.linspace(0, 2 * math.pi, self.points)
        while True:
            frequency = torch.randint(1, 5, (), generator=generator)
            wave = torch.sin(frequency * t + 6.28 * torch.rand((), generator=generator))
            yield wave + 0.1 * torch.randn(self.points, generator=generator), frequency - 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(NoisyWaves(), batch_size=16)
    model = nn.Sequential(nn.Unflatten(1, (1, 32)), nn.Conv1d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(224, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (x, y) in enumerate(loader):
        if step >= args.max_steps:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, "loss", loss.item())
