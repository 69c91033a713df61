"""The digits CNN as people write it: argparse, functions, a main."""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.hidden = nn.Linear(64 * 12 * 12, 128)
        self.head = nn.Linear(128, 10)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.head(self.dropout(F.relu(self.hidden(x))))


def load_data():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = F.interpolate(images, size=(28, 28), mode="bilinear", align_corners=False)
    labels = torch.tensor(digits.target)
    train, test = train_test_split(range(len(labels)), test_size=0.25, stratify=digits.target, random_state=0)
    images = (images - images[train].mean()) / images[train].std()
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def train(args, model, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0:
            print(f"epoch {epoch} [{batch}/{len(loader)}] loss {loss.item():.6f}")


def test(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for data, target in loader:
            right += (model(data).argmax(1) == target).sum().item()
    print(f"accuracy: {right / len(loader.dataset):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(1)
    train_data, test_data = load_data()
    train_loader = DataLoader(train_data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_data, batch_size=1000)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer, epoch)
        test(model, test_loader)
        scheduler.step()
    print(f"{time.time() - start:.1f} s")
    if args.save:
        torch.save(model.state_dict(), "digits_cnn.pt")


if __name__ == "__main__":
    main()
