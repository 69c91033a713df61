# Character-level LSTM language model: truncated BPTT, the state is carried from window to window. No DataLoader.
import argparse
import math

import torch
import torch.nn as nn
from sklearn.datasets import load_wine

parser = argparse.ArgumentParser(description="char LSTM")
parser.add_argument("--emsize", type=int, default=16)
parser.add_argument("--nhid", type=int, default=32)
parser.add_argument("--bptt", type=int, default=25)
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--log-interval", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(1111)

text = load_wine().DESCR
vocab = {c: i for i, c in enumerate(sorted(set(text)))}
ids = torch.tensor([vocab[c] for c in text])


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


train_data, val_data = batchify(ids[:3000], args.batch_size), batchify(ids[3000:], 4)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return self.decoder(output).flatten(0, 1), hidden


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


model = RNNModel(len(vocab), args.emsize, args.nhid)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for epoch in range(1, args.epochs + 1):
    model.train()
    hidden = None
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        output, hidden = model(data, hidden)
        hidden = tuple(h.detach() for h in hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        if batch % args.log_interval == 0:
            print("| epoch", epoch, "| batch", batch, "| loss", loss.item())
    model.eval()
    with torch.no_grad():
        hidden, total = None, 0.0
        for i in range(0, val_data.size(0) - 1, args.bptt):
            data, targets = get_batch(val_data, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output, targets).item()
    print("| end of epoch", epoch, "| valid ppl", math.exp(total / (len(val_data) - 1)))
