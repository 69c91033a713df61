"""A table of numbers classified by TabNet."""

import torch
from pytorch_tabnet.tab_model import TabNetClassifier
from sklearn.datasets import make_classification

x, y = make_classification(4000, 24, n_informative=12, random_state=0)
classifier = TabNetClassifier(
    n_d=16, n_a=16, optimizer_fn=torch.optim.Adam, optimizer_params={"lr": 2e-2}, seed=0, device_name="cpu"
)
classifier.fit(
    x[:3000],
    y[:3000],
    eval_set=[(x[3000:], y[3000:])],
    eval_metric=["accuracy"],
    max_epochs=30,
    patience=30,
    batch_size=256,
    virtual_batch_size=128,
)
