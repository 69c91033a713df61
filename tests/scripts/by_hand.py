# Plain gradient descent: the parameters are changed without an optimizer.
import torch
from sklearn.datasets import load_wine

torch.manual_seed(1)
X, y = load_wine(return_X_y=True)
X, y = torch.tensor((X - X.mean(0)) / X.std(0)).float(), torch.tensor(y)
W = torch.zeros(13, 3, requires_grad=True)
b = torch.zeros(3, requires_grad=True)
lr, epoch = 0.1, 0
while True:
    loss = torch.nn.functional.cross_entropy(X @ W + b, y)
    loss.backward()
    with torch.no_grad():
        for p in (W, b):
            p -= lr * p.grad
            p.grad.zero_()
    epoch += 1
    if epoch % 1000 == 0:
        print(epoch, loss.item())
