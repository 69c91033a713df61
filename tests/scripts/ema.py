"""Keeps an exponential moving average of the weights and evaluates that."""
import copy

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay=0.99):
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ema_v.dtype.is_floating_point:
                ema_v.mul_(self.decay).add_(model_v.detach(), alpha=1.0 - self.decay)
            else:
                ema_v.copy_(model_v)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def run(epochs=4):
    torch.manual_seed(0)
    x, y = load_diabetes(return_X_y=True)
    x, y = torch.tensor(x * 20, dtype=torch.float32), torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    train_dl = DataLoader(TensorDataset(x[:384], y[:384]), batch_size=32, shuffle=True, drop_last=True)
    valid_dl = DataLoader(TensorDataset(x[384:], y[384:]), batch_size=58)
    model = Regressor()
    ema = EMA(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        model.train()
        for xb, yb in train_dl:
            loss = nn.functional.huber_loss(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
            print("loss", loss.item())
        with torch.no_grad():
            for xb, yb in valid_dl:
                print("epoch", epoch, "ema valid", nn.functional.mse_loss(ema.module(xb), yb).item())


run()
