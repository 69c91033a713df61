# Gradient accumulation, clipping, and a warm-up + cosine schedule that is stepped with the optimizer.
import math
import random

import numpy as np
import torch
from sklearn.datasets import make_regression
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, EPOCHS, BATCH, ACCUM, LR, WARMUP = 1337, 5, 16, 4, 3e-3, 10


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def lr_lambda(total):
    def fn(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, total - WARMUP)))

    return fn


set_seed(SEED)
X, y = make_regression(n_samples=1280, n_features=20, noise=0.5, random_state=SEED)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y / np.std(y), dtype=torch.float32)
loader = DataLoader(TensorDataset(X[:1024], y[:1024]), batch_size=BATCH, shuffle=True, drop_last=True)
valid = DataLoader(TensorDataset(X[1024:], y[1024:]), batch_size=256)

model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
total_steps = EPOCHS * len(loader) // ACCUM
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda(total_steps))

step = 0
for epoch in range(EPOCHS):
    model.train()
    optimizer.zero_grad()
    for i, (xb, yb) in enumerate(loader):
        loss = nn.functional.mse_loss(model(xb).squeeze(-1), yb) / ACCUM
        loss.backward()
        if (i + 1) % ACCUM == 0 or (i + 1) == len(loader):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            print(f"step {step}/{total_steps} loss {loss.item() * ACCUM} norm {norm} lr {scheduler.get_last_lr()[0]}")
    model.eval()
    with torch.inference_mode():
        errors = [nn.functional.mse_loss(model(xb).squeeze(-1), yb, reduction="sum") for xb, yb in valid]
    print("epoch", epoch, "valid mse", (sum(errors) / len(valid.dataset)).item())
