"""A classifier by skorch, as a user of scikit-learn trains it."""

import numpy as np
import torch
from sklearn.datasets import make_classification
from skorch import NeuralNetClassifier
from torch import nn


class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )

    def forward(self, x):
        return self.layers(x).softmax(dim=-1)


torch.manual_seed(0)
x, y = make_classification(2000, 20, n_informative=10, random_state=0)
net = NeuralNetClassifier(
    Net, max_epochs=40, lr=0.05, batch_size=64, optimizer=torch.optim.SGD, iterator_train__shuffle=True
)
net.fit(x.astype(np.float32), y.astype(np.int64))
