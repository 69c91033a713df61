# DataLoader under another name, with positional arguments, a sampler of its own, and made anew in each epoch.
import random

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data.dataloader import DataLoader as TorchLoader
from torch.utils.data.sampler import Sampler


class BalancedSampler(Sampler):
    """As many of one class as of the other, in random order."""

    def __init__(self, labels):
        self.groups = [np.flatnonzero(labels == c) for c in np.unique(labels)]

    def __iter__(self):
        n = min(map(len, self.groups))
        chosen = [i for group in self.groups for i in np.random.permutation(group)[:n]]
        random.shuffle(chosen)
        return iter(chosen)

    def __len__(self):
        return len(self.groups) * min(map(len, self.groups))


class Cancer(torch.utils.data.Dataset):
    def __init__(self):
        x, y = load_breast_cancer(return_X_y=True)
        self.x, self.y = ((x - x.mean(0)) / x.std(0)).astype("float32"), y.astype("float32")

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class BatchIterator(TorchLoader):
    """Renames the parts of a batch."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.names = "features", "label"

    def __iter__(self):
        for batch in super().__iter__():
            yield dict(zip(self.names, batch))


def train():
    random.seed(11)
    np.random.seed(11)
    torch.manual_seed(11)
    data = Cancer()
    model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(1, 6):
        running = 0.0
        for batch in BatchIterator(data, 64, False, BalancedSampler(data.y)):
            optimizer.zero_grad()
            loss = bce(model(batch["features"]), batch["label"])
            loss.backward()
            optimizer.step()
            running += loss.item()
            print("epoch", epoch, "loss", loss.item())
        hits = 0
        for x, y in TorchLoader(data, 200):
            hits += ((model(x) > 0) == y.bool()).sum().item()
        print("epoch", epoch, "mean", running, "accuracy", hits / len(data))


train()
