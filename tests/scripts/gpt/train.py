"""
Trains a tiny GPT on characters. Settings are globals; override them with --key=value or a file of assignments:
$ python train.py config/small.py --max_iters=20
"""
import math
import os

import numpy as np
import torch
from model import GPT, GPTConfig

out_dir = "out"
eval_interval = 10
eval_iters = 3
always_save_checkpoint = True
gradient_accumulation_steps = 4
batch_size = 4
block_size = 16
n_layer, n_head, n_embd = 2, 2, 32
learning_rate = 1e-3
max_iters = 40
warmup_iters = 5
grad_clip = 1.0
seed_offset = 0
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())  # overrides from the command line or a config file
config = {k: globals()[k] for k in config_keys}

os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337 + seed_offset)
text = np.frombuffer(open(__file__, "rb").read() * 4, dtype=np.uint8)
train_data, val_data = text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x, y


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            logits, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean().item()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / max(1, max_iters - warmup_iters)
    return 0.1 * learning_rate + 0.45 * learning_rate * (1.0 + math.cos(math.pi * min(1.0, ratio)))


model = GPT(GPTConfig(block_size=block_size, vocab_size=256, n_layer=n_layer, n_head=n_head, n_embd=n_embd))
optimizer = model.configure_optimizers(0.1, learning_rate, (0.9, 0.95))
X, Y = get_batch("train")
iter_num = 0
while True:
    for param_group in optimizer.param_groups:
        param_group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']}, val loss {losses['val']}")
        if iter_num > 0 and always_save_checkpoint:
            torch.save({"model": model.state_dict(), "config": config}, os.path.join(out_dir, "ckpt.pt"))
    for micro_step in range(gradient_accumulation_steps):
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        loss.backward()
    if grad_clip != 0.0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {iter_num}: loss {loss.item() * gradient_accumulation_steps}")
    iter_num += 1
    if iter_num > max_iters:
        break
