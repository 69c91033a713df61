import os

os.environ["OMP_NUM_THREADS"] = "2"  # must be set before torch is imported
os.environ["MKL_NUM_THREADS"] = "2"
import torch

torch.set_num_interop_threads(1)
torch.manual_seed(0)
print("threads", torch.get_num_threads(), torch.get_num_interop_threads())
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
w = torch.randn(16, 1)
for step in range(1, 31):
    x = torch.randn(64, 16)
    loss = torch.nn.functional.l1_loss(model(x), x @ w)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 10:
        torch.set_num_threads(1)  # enough from here on
    print("step", step, "loss", loss.item(), "threads", torch.get_num_threads())
