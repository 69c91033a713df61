# Takes its settings from standard input: python reads_stdin.py < settings.json
import json
import sys

import torch
from sklearn.datasets import load_iris

config = json.load(sys.stdin)
torch.manual_seed(config.get("seed", 0))
X, y = load_iris(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
for epoch in range(config["epochs"]):
    for rows in torch.randperm(len(X)).split(25):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(X[rows]), y[rows])
        loss.backward()
        optimizer.step()
        print("epoch", epoch, "loss", loss.item())
