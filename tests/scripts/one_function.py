# One function for training and for validation; nobody calls eval(), and the loss is printed by a progress line.
import sys

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Subset, TensorDataset


def run_epoch(model, loader, criterion, optimizer=None):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        with torch.set_grad_enabled(optimizer is not None):
            out = model(x)
            loss = criterion(out, y)
        if optimizer is not None:
            loss.backward()
            optimizer.step()
            for p in model.parameters():
                p.grad = None
        total += loss.item() * len(y)
        print("train" if optimizer else "valid", i, "loss", loss.item())
    return total / len(loader.dataset)


def make(data, start, stop, **kwargs):
    return DataLoader(Subset(data, range(start, stop)), batch_size=50, **kwargs)


torch.manual_seed(8)
digits = load_digits()
data = TensorDataset(torch.tensor(digits.data).float() / 16, torch.tensor(digits.target))
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1)
n_epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 6
best = float("inf")
patience = 0
for epoch in range(n_epochs):
    run_epoch(model, make(data, 0, 500, shuffle=True), criterion, optimizer)
    valid = run_epoch(model, make(data, 500, 700), criterion)
    if valid < best:
        best, patience = valid, 0
        torch.save(model.state_dict(), "best.pt")
    else:
        patience += 1
        if patience > 2:
            break
