"""Graph classification by torch_geometric, in a loop of the user's own."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool


def make_graph(generator):
    nodes = int(torch.randint(10, 30, (1,), generator=generator))
    edges = torch.randint(nodes, (2, 4 * nodes), generator=generator)
    x = torch.randn(nodes, 16, generator=generator)
    return Data(x=x, edge_index=edges, y=(x.mean() > 0).long().view(1))


class GCN(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(16, width), GCNConv(width, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x, edge_index, batch):
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        return self.head(global_mean_pool(x, batch))


torch.manual_seed(0)
generator = torch.Generator().manual_seed(0)
graphs = [make_graph(generator) for _ in range(800)]
train_loader = DataLoader(graphs[:600], batch_size=32, shuffle=True)
test_loader = DataLoader(graphs[600:], batch_size=32)
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


def train():
    model.train()
    for data in train_loader:
        out = model(data.x, data.edge_index, data.batch)
        loss = criterion(out, data.y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test(loader):
    model.eval()
    correct = 0
    for data in loader:
        correct += int((model(data.x, data.edge_index, data.batch).argmax(dim=1) == data.y).sum())
    return correct / len(loader.dataset)


for epoch in range(1, 101):
    train()
    print(f"Epoch: {epoch:03d}, Test Acc: {test(test_loader):.4f}")
