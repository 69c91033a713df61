"""A wide multilayer perceptron on scikit-learn's handwritten digits: large matrix products, a heavy optimizer."""

import dataclasses

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

EPOCHS = 30
BATCH_SIZE = 128


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the training and the held-out digits."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = functional.interpolate(images, size=(28, 28), mode="bilinear", align_corners=False)
    inputs = images.flatten(1) - 0.3  # (N, 784)
    labels = torch.tensor(digits.target)
    train, held_out = train_test_split(range(len(labels)), test_size=0.25, stratify=digits.target, random_state=0)
    return TensorDataset(inputs[train], labels[train]), TensorDataset(inputs[held_out], labels[held_out])


def build() -> autoaccel.Training:
    """Return the training: 300 steps."""
    train_data, eval_data = load_data()
    return autoaccel.Training(
        model=nn.Sequential(
            nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Dropout(0.2), nn.Linear(2048, 10)
        ),
        train_data=train_data,
        eval_data=eval_data,
        loss=functional.cross_entropy,
        optimizer=lambda params: torch.optim.AdamW(params, lr=3e-4),
        evaluate="accuracy",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )


def build_short() -> autoaccel.Training:
    """Return a training of 50 steps, which no compilation can repay."""
    return dataclasses.replace(build(), epochs=5)


def build_long() -> autoaccel.Training:
    """Return a training of 50,000 steps, in which a compilation costs next to nothing."""
    return dataclasses.replace(build(), epochs=5000)
