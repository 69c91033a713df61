"""A small MLP on scikit-learn's breast cancer table: a training that is best left alone.

The whole training takes about a twentieth of a second. There is nothing to win, and a tuner must say so. Run
`autoaccel tune examples/tabular_mlp.py` to tune it, or run this file to train.
"""

import time

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import autoaccel

EPOCHS = 10
BATCH_SIZE = 64


class TabularMLP(nn.Module):
    """One hidden layer."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, 64)
        self.head = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(functional.relu(self.hidden(x)))  # (B, 30) -> (B, 64) -> (B, 2)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the held-out rows, standardised. The split is the same whatever the seed."""
    table = load_breast_cancer()
    features = torch.tensor(table.data, dtype=torch.float32)  # (569, 30)
    labels = torch.tensor(table.target)  # (569,): 0 malignant, 1 benign
    train, held_out = train_test_split(range(len(labels)), test_size=0.25, stratify=table.target, random_state=0)
    # Mean and deviation of the training rows only: the held-out rows must not leak into the training.
    features = (features - features[train].mean(0)) / features[train].std(0)
    return TensorDataset(features[train], labels[train]), TensorDataset(features[held_out], labels[held_out])


def build() -> autoaccel.Training:
    """Return the training: 70 steps of less than a millisecond each."""
    train_data, eval_data = load_data()
    return autoaccel.Training(
        model=TabularMLP(features=30),
        train_data=train_data,
        eval_data=eval_data,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.Adam(params, lr=1e-2),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
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
    train_loader = DataLoader(parts.train_data, parts.batch_size, shuffle=True)
    eval_loader = DataLoader(parts.eval_data, parts.batch_size)
    for epoch in range(parts.epochs):
        start = time.perf_counter()
        for features, labels in train_loader:
            loss = parts.loss(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1:2}: accuracy {accuracy(model, eval_loader):.4f}, {seconds:.3f} s")
