"""Fine-tuning in two trainings: first the new head with the body frozen, then everything at a lower rate."""
import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x))


def fit(name, model, loader, epochs, lr):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print(name, epoch, "loss", loss.item())


parser = argparse.ArgumentParser()
parser.add_argument("--head-epochs", type=int, default=2)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
digits = load_digits()
data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = Model()
for p in model.body.parameters():
    p.requires_grad = False
fit("head", model, loader, args.head_epochs, 1e-3)
for p in model.body.parameters():
    p.requires_grad = True
fit("all", model, loader, args.epochs, 1e-4)
