import argparse

import torch
from data import get_loaders
from evaluate import accuracy
from model import build_model
from utils import AverageMeter, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=3, type=int)
args = parser.parse_args()
set_seed(0)
train_loader, test_loader = get_loaders(batch_size=32)
model = build_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meter = AverageMeter()
for epoch in range(args.epochs):
    for images, labels in train_loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss.item(), len(labels))
        print("epoch", epoch, "loss", meter.val, "average", meter.avg)
    print("accuracy", accuracy(model, test_loader))
