# Logistic regression solved by a single call of LBFGS.
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = torch.tensor(StandardScaler().fit_transform(X), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32)
model = torch.nn.Linear(30, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    logits = model(X).squeeze(1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y) + 1e-3 * model.weight.square().sum()
    loss.backward()
    return loss


optimizer.step(closure)
with torch.no_grad():
    accuracy = ((model(X).squeeze(1) > 0) == y.bool()).float().mean().item()
print("final loss", closure().item(), "accuracy", accuracy)
