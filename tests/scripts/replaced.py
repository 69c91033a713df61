# The network is moved to another type and replaced by a wider one on the way; the optimizer goes with it.
import torch
from torch import nn

torch.manual_seed(0)


def make(width):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1))


def widen(old, width):
    new = make(width)
    with torch.no_grad():
        n = old[0].out_features
        new[0].weight[:n], new[0].bias[:n] = old[0].weight, old[0].bias
        new[2].weight.zero_()
        new[2].weight[:, :n], new[2].bias[:] = old[2].weight, old[2].bias
    return new


model = make(8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(128, 6)
y = torch.sin(x.sum(1, keepdim=True))
for step in range(90):
    if step == 30:
        model = widen(model, 32)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if step == 60:
        model, x, y = model.double(), x.double(), y.double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "width", model[0].out_features, "loss", loss.item())
