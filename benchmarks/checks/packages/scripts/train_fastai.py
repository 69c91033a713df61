"""A small network on made numbers, trained by a Learner of fastai with its own optimizer and one-cycle policy."""

import torch
from fastai.callback.schedule import Learner  # which adds fit_one_cycle to it
from fastai.data.core import DataLoaders
from fastai.metrics import accuracy
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
x = torch.randn(2500, 20)
y = (x[:, :10].sum(1) > x[:, 10:].sum(1)).long()
loaders = DataLoaders.from_dsets(
    TensorDataset(x[:2000], y[:2000]), TensorDataset(x[2000:], y[2000:]), bs=64, device=torch.device("cpu")
)
model = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
learner = Learner(loaders, model, loss_func=nn.CrossEntropyLoss(), metrics=accuracy)
learner.fit_one_cycle(25, 1e-3)
