"""Image classifier with a Trainer class, the way most project templates have it."""
import argparse
import logging
import os
from dataclasses import dataclass

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("train")


@dataclass
class Config:
    epochs: int = 4
    batch_size: int = 64
    lr: float = 0.05
    out_dir: str = "runs/digits"


class ConvNet(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.classifier = nn.Linear(width * 16, classes)

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class Trainer:
    def __init__(self, config, device):
        self.config, self.device = config, device
        digits = load_digits()
        data = TensorDataset(torch.tensor(digits.images).float()[:, None] / 16, torch.tensor(digits.target))
        train, val = random_split(data, [1500, len(data) - 1500])
        self.train_loader = DataLoader(train, config.batch_size, shuffle=True)
        self.val_loader = DataLoader(val, config.batch_size)
        self.model = ConvNet().to(device)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config.lr, momentum=0.9, weight_decay=5e-4)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2, gamma=0.1)
        self.best = 0.0

    def train_epoch(self, epoch):
        self.model.train()
        for step, (x, y) in enumerate(self.train_loader):
            x, y = x.to(self.device), y.to(self.device)
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            log.info("epoch %d step %d loss %s", epoch, step, loss.item())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        correct = sum((self.model(x.to(self.device)).argmax(1).cpu() == y).sum().item() for x, y in self.val_loader)
        return correct / len(self.val_loader.dataset)

    def fit(self):
        os.makedirs(self.config.out_dir, exist_ok=True)
        for epoch in range(self.config.epochs):
            self.train_epoch(epoch)
            accuracy = self.validate()
            log.info("epoch %d accuracy %s", epoch, accuracy)
            if accuracy > self.best:
                self.best = accuracy
                torch.save(self.model.state_dict(), os.path.join(self.config.out_dir, "best.pth"))
            self.scheduler.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    torch.manual_seed(42)
    Trainer(Config(epochs=parser.parse_args().epochs), torch.device("cuda" if torch.cuda.is_available() else "cpu")).fit()
