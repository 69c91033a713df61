"""Siamese network: the same model is called three times in a step (triplet loss), and once more without gradients."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class Triplets(Dataset):
    def __init__(self, data, targets):
        self.data, self.targets = data, targets
        self.by_class = [(targets == c).nonzero()[:, 0] for c in range(10)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        label = int(self.targets[index])
        positive = self.by_class[label][torch.randint(len(self.by_class[label]), ())]
        other = (label + int(torch.randint(1, 10, ()))) % 10
        negative = self.by_class[other][torch.randint(len(self.by_class[other]), ())]
        return self.data[index], self.data[positive], self.data[negative]


class EmbeddingNet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 3 * 3, dim)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.normalize(self.fc(x.flatten(1)), dim=-1)


def main(epochs=2, margin=0.5, log_every=5):
    torch.manual_seed(7)
    digits = load_digits()
    data = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    loader = DataLoader(Triplets(data[:640], torch.tensor(digits.target[:640])), batch_size=32, shuffle=True)
    net = EmbeddingNet()
    optimizer = torch.optim.NAdam(net.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for i, (anchor, positive, negative) in enumerate(loader):
            a, p, n = net(anchor), net(positive), net(negative)
            loss = F.triplet_margin_loss(a, p, n, margin=margin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                gap = (net(anchor) - net(negative)).norm(dim=1).mean() - (net(anchor) - net(positive)).norm(dim=1).mean()
            if i % log_every == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item()} gap {gap.item()}")


main()
