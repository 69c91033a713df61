"""No seed, and not a word about the loss."""
import torch
from sklearn.datasets import make_moons
from torch.utils.data import DataLoader, TensorDataset

X, y = make_moons(512, noise=0.1)
train = TensorDataset(torch.Tensor(X), torch.LongTensor(y))
net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optim = torch.optim.Adadelta(net.parameters())
print("training ...")
for _ in range(10):
    for data, target in DataLoader(train, shuffle=True, batch_size=32):
        torch.nn.functional.cross_entropy(net(data), target).backward()
        optim.step()
        optim.zero_grad()
print("done")
