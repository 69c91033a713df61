# Training is counted in steps, not epochs; every EVAL_EVERY of them the test set is looked at.
import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", default=60, type=int)
    parser.add_argument("--eval-every", default=8, type=int)
    parser.add_argument("--seed", default=0, type=int)
    return parser.parse_args()


class Classifier(nn.Module):
    def __init__(self, inputs, hidden, outputs, p=0.2):
        super(Classifier, self).__init__()
        self.fc1 = nn.Linear(inputs, hidden)
        self.drop = nn.Dropout(p)
        self.fc2 = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


def infinite(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    model.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(-1) == y).float().mean().item()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    x, y = load_wine(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=args.seed)
    scaler = StandardScaler().fit(x_train)
    x_train, x_test = (torch.from_numpy(scaler.transform(part)).float() for part in (x_train, x_test))
    y_train, y_test = torch.from_numpy(y_train), torch.from_numpy(y_test)

    model = Classifier(13, 32, 3)
    opt = optim.Adam(model.parameters(), lr=1e-2)
    batches = infinite(DataLoader(TensorDataset(x_train, y_train), batch_size=16, shuffle=True))
    for step, (xb, yb) in zip(range(1, args.max_steps + 1), batches):
        opt.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        print("step", step, "loss", loss.item())
        if step % args.eval_every == 0:
            print("test loss %r accuracy %r" % evaluate(model, x_test, y_test))


if __name__ == "__main__":
    main()
