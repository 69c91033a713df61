"""Workers are spawned: each imports this file again, under another name."""
import torch
import torch.multiprocessing as mp
from sklearn.datasets import load_linnerud
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Linnerud(Dataset):
    def __init__(self):
        bunch = load_linnerud()
        self.x = torch.tensor((bunch.data - bunch.data.mean(0)) / bunch.data.std(0), dtype=torch.float32)
        self.y = torch.tensor((bunch.target - bunch.target.mean(0)) / bunch.target.std(0), dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def collate(items):
    xs, ys = zip(*items)
    return torch.stack(xs), torch.stack(ys)


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Linnerud(), batch_size=5, shuffle=True, num_workers=1, collate_fn=collate, persistent_workers=True
    )
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(12):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).abs().mean()
            loss.backward()
            optimizer.step()
            print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    mp.set_start_method("spawn")
    main()
