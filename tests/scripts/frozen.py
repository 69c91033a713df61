"""Knowledge distillation: a frozen teacher, a student that is trained, and a head that is not updated."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True, drop_last=True)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, width), nn.ReLU())
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(x))


teacher = Net(128)
student = Net(16)
teacher.requires_grad_(False)
teacher.eval()
student.head.requires_grad_(False)  # keeps its random projection
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, student.parameters()), lr=1e-3)
T = 2.0
for epoch in range(3):
    student.train()
    for i, (x, y) in enumerate(loader):
        soft = F.softmax(teacher(x) / T, dim=1)
        logits = student(x)
        loss = F.cross_entropy(logits, y) + T * T * F.kl_div(F.log_softmax(logits / T, dim=1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{epoch}:{i} loss {loss.item()}")
