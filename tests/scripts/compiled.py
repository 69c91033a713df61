"""The model is compiled already. (backend="aot_eager" needs no C++ compiler.)"""
import argparse

import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--backend", default="aot_eager")
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()

torch.manual_seed(2024)
torch.set_float32_matmul_precision("high")
X, y = load_iris(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
loader = DataLoader(TensorDataset(X, y), batch_size=30, shuffle=True)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.l2(torch.tanh(self.l1(x)))


model = MLP()
if args.compile:
    model = torch.compile(model, backend=args.backend)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(args.epochs):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print("epoch", epoch, "loss", loss.item())
torch.save(model.state_dict(), "iris.pt")
