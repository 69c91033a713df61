"""Trainings that whole runs of several tests tune."""

from __future__ import annotations

# Each sample takes two milliseconds of waiting, not of computing: loader workers help by a factor that no
# neighbour of this machine can change.
WAITING = """
import time
from torch.utils.data import Dataset

class Waiting(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, index):
        time.sleep(0.002)
        return INPUTS[index], TARGETS[index]

tiny = build

def build():
    return tiny(train_data=Waiting(), epochs=20)
"""
