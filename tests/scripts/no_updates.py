# Saliency: which pixels does a digit's score depend on? Gradients, but nothing is trained.
import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
importance = torch.zeros(64)
for round in range(1000):
    for image, label in zip(X, y):
        image = torch.tensor(image, dtype=torch.float32, requires_grad=True)
        model(image)[label].backward()
        importance += image.grad.abs()
print("most important pixel", importance.argmax().item())
