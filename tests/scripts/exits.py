#!/usr/bin/env python
"""Ends with sys.exit(), catches every Exception on its way, and goes on."""
import logging
import sys
import traceback

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger("exits")
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stdout))


def train_step(model, optimizer, batch):
    x, y = batch
    if not torch.isfinite(x).all():
        raise ValueError("bad batch")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(argv):
    torch.manual_seed(int(argv[0]) if argv else 0)
    x, y = load_diabetes(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32) / 100
    x[7, 3] = float("nan")
    loader = DataLoader(TensorDataset(x, y), batch_size=34, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    failed = 0
    for epoch in range(2):
        for batch in loader:
            try:
                logger.info("loss %r", train_step(model, optimizer, batch))
            except Exception:
                failed += 1
                logger.info("skipped: %s", traceback.format_exc().splitlines()[-1])
    return 0 if failed < 10 else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
