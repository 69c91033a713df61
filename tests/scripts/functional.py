"""Training by hand with torch.func: no optimizer object anywhere."""
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
x, y = load_diabetes(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) * 20, torch.tensor(y, dtype=torch.float32) / 100
model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
params = {name: p.detach() for name, p in model.named_parameters()}


def loss_fn(params, x, y):
    return nn.functional.mse_loss(functional_call(model, params, (x,)).squeeze(1), y)


step = grad_and_value(loss_fn)
for i in range(10_000_000):
    grads, loss = step(params, x, y)
    params = {name: p - 0.01 * grads[name] for name, p in params.items()}
    if i % 100 == 0:
        print("iteration", i, "loss", loss.item())
