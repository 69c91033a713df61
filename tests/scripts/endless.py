# Trains until Ctrl-C, whatever happens.
import signal
import time

import torch
import torch.nn as nn

torch.manual_seed(0)
running = True


def stop(signum, frame):
    global running
    running = False


signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
net = nn.GRU(4, 8, batch_first=True)
head = nn.Linear(8, 4)
params = list(net.parameters()) + list(head.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2)
step, best = 0, float("inf")
while running:
    try:
        x = torch.cumsum(torch.randn(16, 12, 4) * 0.1, dim=1)
        h, _ = net(x[:, :-1])
        loss = (head(h) - x[:, 1:]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        step += 1
        print(f"step {step} loss {loss.item()}", flush=True)
        if step % 8 == 0 and loss.item() < best:
            best = loss.item()
            torch.save({"net": net.state_dict(), "head": head.state_dict(), "step": step}, "best.pt")
    except BaseException as error:
        print("ignored:", type(error).__name__)
        time.sleep(0.1)
