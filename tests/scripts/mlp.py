# A notebook that became a file: flat, no functions, no main.
import random

import numpy as np
import torch
import torch.nn as nn

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

X = torch.randn(640, 16)
y = (X.sum(dim=1) > 0).long()
train_ds = torch.utils.data.TensorDataset(X[:512], y[:512])
val_ds = torch.utils.data.TensorDataset(X[512:], y[512:])
train_dl = torch.utils.data.DataLoader(train_ds, 32, True)
val_dl = torch.utils.data.DataLoader(val_ds, 128)

model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
loss_fn = nn.CrossEntropyLoss()

n_epochs = 20
for epoch in range(n_epochs):
    model.train()
    for xb, yb in train_dl:
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
        opt.zero_grad()

    model.eval()
    with torch.no_grad():
        val_loss = sum(loss_fn(model(xb), yb).item() * len(xb) for xb, yb in val_dl) / len(val_ds)
    print(f"{epoch}: {loss.item():.4f} {val_loss:.4f}")
    torch.save({"model": model.state_dict(), "epoch": epoch}, "checkpoint.pt")
