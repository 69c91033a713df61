"""Everything is seeded and checked: the same training twice must give the same weights."""
import os
import random

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def seed_everything(seed):
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def train(steps):
    seed_everything(123)
    x, y = load_breast_cancer(return_X_y=True)
    data = TensorDataset(torch.tensor((x - x.mean(0)) / x.std(0)).float(), torch.tensor(y))
    g = torch.Generator()
    g.manual_seed(0)
    loader = DataLoader(data, batch_size=64, shuffle=True, worker_init_fn=seed_worker, generator=g)
    model = nn.Sequential(nn.Linear(30, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    done = 0
    while done < steps:
        for inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            done += 1
            print(done, "loss", loss.item())
            if done == steps:
                break
    return torch.cat([p.detach().flatten() for p in model.parameters()])


if __name__ == "__main__":
    assert torch.equal(train(4), train(4)), "not reproducible"
    train(40)
