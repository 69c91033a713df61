# A model whose parameters are moved along their gradients by the script itself, as old language models do.
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1111)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
train_data, val_data = torch.utils.data.random_split(data, [1536, 261])
loader = DataLoader(train_data, batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))
criterion = nn.CrossEntropyLoss()
lr, best = 0.5, None

for epoch in range(1, 6):
    model.train()
    for batch, (x, y) in enumerate(loader):
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        if batch % 8 == 0:
            print(f"epoch {epoch} batch {batch} loss {loss.item():.6f}")
    model.eval()
    with torch.no_grad():
        x, y = val_data[:]
        val_loss = criterion(model(x), y).item()
    print(f"epoch {epoch} valid loss {val_loss:.4f}")
    if best is None or val_loss < best:
        best = val_loss
        torch.save(model.state_dict(), "best.pt")
    else:
        lr /= 4
