# Predicts a sine wave with an LSTM cell; LBFGS calls a closure up to 20 times in each step.
import argparse

import numpy as np
import torch
from torch import nn, optim


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            outputs.append(self.linear(h_t))
        for _ in range(future):
            h_t, c_t = self.lstm1(outputs[-1], (h_t, c_t))
            outputs.append(self.linear(h_t))
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8, help="steps to run")
    opt = parser.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)
    x = np.arange(40) + np.random.randint(-20, 20, 10).reshape(10, 1)
    data = torch.from_numpy(np.sin(x / 4.0))
    input, target = data[3:, :-1], data[3:, 1:]
    test_input, test_target = data[:3, :-1], data[:3, 1:]
    seq = Sequence()
    seq.double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=6)
    for i in range(opt.steps):
        print("STEP:", i)

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(input), target)
            print("loss:", loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(test_input, future=10)
            print("test loss:", criterion(pred[:, :-10], test_target).item())
