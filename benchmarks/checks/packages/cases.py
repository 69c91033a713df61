"""The packages, and what is true of the script of each: found by hand, and held against a count of a plain run."""

from __future__ import annotations

from typing import NamedTuple


class Truth(NamedTuple):
    """What is true of a training."""

    models: tuple[str, ...]
    """Classes of what is trained."""
    optimizers: tuple[str, ...]
    """Classes, in the order of their first updates."""
    planned: int
    """Updates of the whole training."""
    why: str
    """How that follows from what the package documents."""
    loader: str = ""
    """That feeds it: class of its samples, how many, and how many make a batch; empty if none of torch's does."""
    per_epoch: int | None = None
    """Steps of an epoch; None where no loader of torch's feeds it."""
    batches: int = 1
    """Of a step, in the first steps."""

    @property
    def batch_size(self) -> int | None:
        """Samples of a batch."""
        return int(self.loader.rpartition(" ")[2]) if self.loader else None


class Case(NamedTuple):
    """A package, and a script that trains with it."""

    package: str
    """Its name on PyPI."""
    script: str
    environment: str
    """One of `ENVIRONMENTS`."""
    truth: Truth


_PINS = ("--constraint", "constraints.txt")
ENVIRONMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "tables": (
        (
            *_PINS, "skorch==1.4.0", "pytorch-tabnet==4.1.0", "torch_geometric==2.8.1", "stable-baselines3==2.9.2",
            "monai==1.6.1", "pandas==2.3.3",
        ),
    ),
    "language": ((*_PINS, "peft==0.21.2", "sentence-transformers==6.2.0", "trl==1.16.0"),),
    "chemistry": ((*_PINS, "chemprop==2.3.1"),),
    "mace": ((*_PINS, "mace-torch==0.3.16"),),
    "fastai": ((*_PINS, "fastai==2.8.12"),),
    # Validation needs an operator of torchvision's, whose build for this torch is one for CUDA, as the torch is not.
    "ultralytics": (("torch==2.14.1", "torchvision==0.29.1", "ultralytics==8.4.190"),),
}  # fmt: skip
"""Name -> what is installed, one call of pip after the other; autoaccel comes first, with its own constraints."""

CASES = (
    Case(
        "skorch", "train_skorch.py", "tables",
        Truth(
            ("Net",), ("SGD",), 1000, "40 epochs of 25 batches: a fifth of 2,000 samples validates",
            "Subset 1600 in 64", 25
        ),
    ),
    Case(
        "pytorch-tabnet", "train_tabnet.py", "tables",
        Truth(
            ("TabNet",), ("Adam",), 330, "30 epochs of 11 batches: the incomplete one is dropped",
            "TorchDataset 3000 in 256", 11,
        ),
    ),
    Case(
        "torch_geometric", "train_geometric.py", "tables",
        Truth(("GCN",), ("Adam",), 1900, "100 epochs of 19 batches", "list 600 in 32", 19),
    ),
    Case(
        "stable-baselines3", "train_baselines3.py", "tables",
        Truth(
            ("ActorCriticPolicy",), ("Adam",), 3200,
            "40 rollouts of 128 steps in 4 environments, 10 x 8 updates after each"
        ),
    ),
    Case(
        "monai", "train_monai.py", "tables",
        Truth(("UNet",), ("Adam",), 240, "30 epochs of 8 batches", "CacheDataset 48 in 6", 8),
    ),
    Case(
        "peft", "train_peft.py", "language",
        Truth(
            ("PeftModelForCausalLM",), ("AdamW",), 300, "15 epochs of 40 batches, two of which make an update",
            "Tokens 320 in 8", 20, batches=2,
        ),
    ),
    Case(
        "sentence-transformers", "train_sentences.py", "language",
        Truth(("SentenceTransformer",), ("AdamW",), 480, "12 epochs of 40 batches", "Dataset 640 in 16", 40),
    ),
    Case(
        "trl", "train_trl.py", "language",
        Truth(("LlamaForCausalLM",), ("AdamW",), 200, "4 epochs of 50 batches", "Dataset 400 in 8", 50),
    ),
    Case(
        "chemprop", "train_chemprop.py", "chemistry",
        Truth(("MPNN",), ("Adam",), 160, "20 epochs of 8 batches", "MoleculeDataset 500 in 64", 8),
    ),
    Case(
        "mace-torch", "train_mace.py", "mace",
        Truth(("ScaleShiftMACE",), ("Adam",), 80, "8 epochs of 10 batches", "ConcatDataset 50 in 5", 10),
    ),
    Case(
        "fastai", "train_fastai.py", "fastai",
        Truth(("Sequential",), ("Optimizer of fastai",), 775, "25 epochs of 31 batches: the incomplete one is dropped"),
    ),
    Case(
        "ultralytics", "train_ultralytics.py", "ultralytics",
        Truth(
            ("DetectionModel",), ("AdamW",), 16, "8 epochs of 2 batches, each of which makes an update",
            "YOLODataset 128 in 64", 2,
        ),
    ),
)  # fmt: skip
