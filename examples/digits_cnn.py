"""A small convolutional network on scikit-learn's handwritten digits, as in PyTorch's MNIST example.

Convolutions take nearly all of a step, so precision, memory layout and threads decide how fast it is. On a run this
short, compilation seldom repays its cost. Run `autoaccel tune examples/digits_cnn.py` to tune it, or run this file to
train.
"""

import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import autoaccel

EPOCHS = 10
BATCH_SIZE = 64


class DigitsCNN(nn.Module):
    """Two convolutions, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.hidden = nn.Linear(64 * 12 * 12, 128)
        self.head = nn.Linear(128, 10)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.conv1(x))  # (B, 1, 28, 28) -> (B, 32, 26, 26)
        x = functional.relu(self.conv2(x))  # (B, 64, 24, 24)
        x = functional.max_pool2d(x, 2)  # (B, 64, 12, 12)
        x = x.flatten(1)  # (B, 9216); not view(): with channels last, the elements do not lie in this order
        x = functional.relu(self.hidden(x))  # (B, 128)
        return self.head(self.dropout(x))  # (B, 10)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the held-out digits. The split is the same whatever the seed."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # (N, 1, 8, 8), from 0 to 1
    # The network of the MNIST example expects MNIST's size.
    images = functional.interpolate(images, size=(28, 28), mode="bilinear", align_corners=False)  # (N, 1, 28, 28)
    labels = torch.tensor(digits.target)  # (N,)
    train, held_out = train_test_split(range(len(labels)), test_size=0.25, stratify=digits.target, random_state=0)
    # Mean and deviation of the training digits only: the held-out ones must not leak into the training.
    images = (images - images[train].mean()) / images[train].std()
    return TensorDataset(images[train], labels[train]), TensorDataset(images[held_out], labels[held_out])


def build() -> autoaccel.Training:
    """Return the training: after about 200 steps, 98 % of the held-out digits are right."""
    train_data, eval_data = load_data()
    return autoaccel.Training(
        model=DigitsCNN(),
        train_data=train_data,
        eval_data=eval_data,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.Adam(params, lr=1e-3),
        # The rate ends near zero. Otherwise the last few steps would decide about several digits.
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,  # 1347 = 21 * 64 + 3: a step on three digits is mostly noise
    )


def accuracy(model: nn.Module, loader: DataLoader) -> float:
    """Return the fraction of the loader's samples that the model gets right."""
    model.eval()
    with torch.no_grad():
        hits = [model(inputs).argmax(1) == labels for inputs, labels in loader]
    model.train()
    return torch.cat(hits).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    parts = build()
    model = parts.model
    optimizer = parts.optimizer(model.parameters())
    scheduler = parts.scheduler(optimizer)
    train_loader = DataLoader(parts.train_data, parts.batch_size, shuffle=True, drop_last=True)
    eval_loader = DataLoader(parts.eval_data, parts.batch_size)
    for epoch in range(parts.epochs):
        start = time.perf_counter()
        for images, labels in train_loader:
            loss = parts.loss(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1:2}: accuracy {accuracy(model, eval_loader):.4f}, {seconds:.2f} s")
