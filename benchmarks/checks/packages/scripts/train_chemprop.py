"""A message-passing network by chemprop on made molecules, trained by Lightning as its documentation does."""

import random

import numpy as np
from chemprop import data, models, nn
from lightning import pytorch as pl

random.seed(0)
pl.seed_everything(0)
ends = ["", "O", "N", "Cl", "F", "C(=O)O", "C#N", "c1ccccc1"]
smiles = [f"C{'C' * random.randrange(12)}{random.choice(ends)}" for _ in range(600)]
targets = np.array([[float(len(one) + one.count("O"))] for one in smiles])
points = [data.MoleculeDatapoint.from_smi(one, target) for one, target in zip(smiles, targets, strict=True)]
train_set, valid_set = data.MoleculeDataset(points[:500]), data.MoleculeDataset(points[500:])
scaler = train_set.normalize_targets()
valid_set.normalize_targets(scaler)
train_loader = data.build_dataloader(train_set, batch_size=64, num_workers=0)
valid_loader = data.build_dataloader(valid_set, batch_size=64, num_workers=0, shuffle=False)
head = nn.RegressionFFN(output_transform=nn.UnscaleTransform.from_standard_scaler(scaler))
model = models.MPNN(nn.BondMessagePassing(), nn.MeanAggregation(), head, batch_norm=True)
trainer = pl.Trainer(
    accelerator="cpu", max_epochs=20, logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(model, train_loader, valid_loader)
