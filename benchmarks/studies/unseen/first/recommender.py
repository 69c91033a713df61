"""A recommender with embeddings of 200,000 users and 100,000 items, and an optimizer that goes over all of them.

Stands for: ratings predicted from two large tables; a step moves memory more than it computes.
On two cores: 0.4 s a step, of which a quarter waits for data; 1,464 steps, 10 minutes.
A user cares about: the squared error of ratings that were held out.

No package ships ratings. These are synthesised: the product of 8 latent factors of a user and an item, what each of
them adds, and noise of 0.5; items are drawn by Zipf's law.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel

USERS, ITEMS = 200_000, 100_000
FACTORS = 8  # behind the ratings
NOISE = 0.5
RATINGS, EVAL_RATINGS = 2_000_000, 50_000
WIDTH = 64  # of an embedding
EPOCHS = 3
BATCH_SIZE = 4096


class Recommender(nn.Module):
    """The product of two embeddings, what each side adds, and a small network over both."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, WIDTH), nn.Embedding(ITEMS, WIDTH)
        self.user_adds, self.item_adds = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)
        layers = (nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))
        self.network = nn.Sequential(*layers)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_adds, self.item_adds):
            nn.init.zeros_(table.weight)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        u, i = self.users(user), self.items(item)  # (B,) -> (B, WIDTH)
        adds = self.user_adds(user) + self.item_adds(item) + self.network(torch.cat([u, i], dim=1))  # (B, 1)
        return (u * i).sum(1) + adds.squeeze(1)  # (B,)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return ratings to train on and held-out ones, the same whatever the seed: (user, item, rating)."""
    numbers = np.random.default_rng(0)
    count = RATINGS + EVAL_RATINGS
    user = numbers.integers(USERS, size=count)
    popularity = 1 / np.arange(1, ITEMS + 1) ** 0.8
    item = np.searchsorted(np.cumsum(popularity) / popularity.sum(), numbers.random(count)).clip(max=ITEMS - 1)
    of_users, of_items = (numbers.normal(size=(size, FACTORS)).astype("float32") for size in (USERS, ITEMS))
    user_adds, item_adds = (numbers.normal(scale=0.5, size=size).astype("float32") for size in (USERS, ITEMS))
    rating = (of_users[user] * of_items[item]).sum(1) / FACTORS**0.5 + user_adds[user] + item_adds[item]
    rating += numbers.normal(scale=NOISE, size=count).astype("float32")
    columns = [torch.from_numpy(column) for column in (user, item, rating.astype("float32"))]
    return (
        TensorDataset(*(column[:RATINGS] for column in columns)),
        TensorDataset(*(column[RATINGS:] for column in columns)),
    )


def build() -> autoaccel.Training:
    """Return the training."""
    train_data, eval_data = load_data()
    return autoaccel.Training(
        model=Recommender(),
        train_data=train_data,
        eval_data=eval_data,
        loss=nn.functional.mse_loss,
        optimizer=lambda params: torch.optim.AdamW(params, lr=3e-3, weight_decay=1e-2),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        evaluate="mse",
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        drop_last=True,
    )
