# Each layer learns on its own, from what the one before it makes of the data. forward() is called by its name.
import torch
from sklearn.datasets import load_wine

torch.manual_seed(3)


class Layer(torch.nn.Linear):
    def __init__(self, inputs, outputs, epochs):
        super().__init__(inputs, outputs)
        self.epochs = epochs
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.03)

    def forward(self, x):
        return torch.relu(torch.nn.functional.normalize(x) @ self.weight.T + self.bias)

    def train(self, right, wrong):
        for epoch in range(self.epochs):
            margin = 2 - self.forward(right).pow(2).mean(1), self.forward(wrong).pow(2).mean(1) - 2
            loss = torch.log1p(torch.exp(torch.cat(margin))).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if epoch % 20 == 0:
                print(f"loss {loss.item():.4f}")
        return self.forward(right).detach(), self.forward(wrong).detach()


data, labels = load_wine(return_X_y=True)
data, labels = torch.tensor((data - data.mean(0)) / data.std(0)).float(), torch.tensor(labels)
right = torch.cat([data, torch.nn.functional.one_hot(labels, 3)], 1)
wrong = torch.cat([data, torch.nn.functional.one_hot((labels + torch.randint(1, 3, labels.shape)) % 3, 3)], 1)
for layer in [Layer(16, 256, epochs=100), Layer(256, 256, epochs=100)]:
    right, wrong = layer.train(right, wrong)
