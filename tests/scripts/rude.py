"""Does to its process what a program may: forks, handles signals, limits itself, closes descriptors, leaves at once."""
import os
import resource
import signal
import sys
import tempfile

os.closerange(3, 4096)
import torch  # noqa: E402
from torch import nn  # noqa: E402

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
    signal.signal(number, lambda number, frame: print("signal", number))
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
os.chdir(tempfile.mkdtemp(dir="."))

torch.manual_seed(0)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    child = os.fork()
    if child == 0:
        if epoch == 1:
            raise ValueError("of a child")
        sys.exit(epoch)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"epoch {epoch}, child ended with {status}", flush=True)
    for _ in range(10):
        optimizer.zero_grad()
        inputs = torch.randn(16, 8)
        loss = nn.functional.cross_entropy(model(inputs), (inputs.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        if loss.item() < float(os.environ.get("GOOD_ENOUGH", "0")):
            sys.exit(0)
if os.fork() == 0:
    pass  # the child runs off the end
else:
    os.wait()
    sys.stdout.close()
    sys.stderr = None
    os._exit(0)
