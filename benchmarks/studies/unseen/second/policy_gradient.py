"""A policy that learns to balance a pole on a cart, one episode a step: nothing here makes it faster.

Stands for: reinforcement learning with a simulator in plain Python, where nearly all of a step is neither a kernel nor
a loader, and no batch could be divided.
On two cores: 0.05 s a step, 6,000 steps, 5 minutes.
A user cares about: how long the pole stands, and being told at once that there is nothing to win.

The cart is that of Barto, Sutton and Anderson (1983), with friction left out, integrated in steps of 2 ms.
"""

import math
import random

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel

MAX_MOVES = 400  # of an episode
SUBSTEPS = 10  # of 2 ms, for each move
EPISODES, EPOCHS = 1000, 6
EVAL_EPISODES = 8
State = tuple[float, float, float, float]


def move(state: State, force: float) -> State:
    """Return place, speed, angle and angular speed 20 ms later."""
    x, dx, angle, spin = state
    for _ in range(SUBSTEPS):
        push = (force + 0.05 * spin * spin * math.sin(angle)) / 1.1
        turning = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        speeding = push - 0.05 * turning * math.cos(angle) / 1.1
        x, dx, angle, spin = x + 0.002 * dx, dx + 0.002 * speeding, angle + 0.002 * spin, spin + 0.002 * turning
    return x, dx, angle, spin


def stands(state: State) -> bool:
    """Whether the cart is on its track and the pole has not fallen."""
    return abs(state[0]) < 2.4 and abs(state[2]) < 0.21


def play(model: nn.Module, seed: int) -> tuple[torch.Tensor, int]:
    """Return the log probabilities of all moves of an episode, and how many there were while the pole stood.

    An episode goes on to its last move even if the pole falls (it begins anew), so that all take the same time.
    """
    numbers = random.Random(seed)
    state: State = tuple(numbers.uniform(-0.05, 0.05) for _ in range(4))  # type: ignore[assignment]  # to mypy a tuple of a generator has any length
    chosen, stood, fell = [], 0, False
    for _ in range(MAX_MOVES):
        log_odds = model(torch.tensor([state]))  # (1, 2)
        logs = log_odds.float().log_softmax(1)[0]
        right = numbers.random() < logs[1].exp().item()
        chosen.append(logs[int(right)])
        state = move(state, 10.0 if right else -10.0)
        if not stands(state):
            fell = True
            state = (0.0, 0.0, 0.0, 0.0)
        stood += not fell
    return torch.stack(chosen), stood


def loss_of(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss whose gradient is that of the time that the pole stands (Williams, 1992)."""
    logs, stood = play(model, int(batch[0].item()))
    moves = min(stood + 1, len(logs))  # the one that made it fall, too
    togo = torch.arange(moves, 0, -1) / MAX_MOVES
    return -(logs[:moves] * (togo - togo.mean())).mean()


def time_standing(model: nn.Module, loader) -> float:
    """Return for how much of an episode the pole stands, on average."""
    stood = [play(model, int(seed))[1] for (seeds,) in loader for seed in seeds]
    return sum(stood) / len(stood) / MAX_MOVES


def build() -> autoaccel.Training:
    """Return the training."""
    return autoaccel.Training(
        model=nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)),
        train_data=TensorDataset(torch.arange(EPISODES)),
        eval_data=TensorDataset(torch.arange(EPISODES, EPISODES + EVAL_EPISODES)),
        step=loss_of,
        optimizer=lambda params: torch.optim.Adam(params, lr=3e-3),
        evaluate=time_standing,
        direction="maximize",
        epochs=EPOCHS,
        batch_size=1,
    )
