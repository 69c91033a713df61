"""Trainings in which a loader's settings change the numbers, by one mechanism each, and others that only look so.

`draw` makes a script of a mechanism: sizes, the user's own workers, wrappers, and the form of the loop differ from draw
to draw. Each script prints the loss of every step with all its digits.
"""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Mechanism:
    """Fragments of a script. The sample's numbers are in `x` when `get` has been run, `index` is its place."""

    name: str
    changes: bool  # whether workers, kept ones or more of them change the training's numbers
    setup: str = ""  # at the top, once INPUTS is there
    init: str = "pass"  # in the constructor of the dataset
    get: str = "pass"
    methods: str = ""  # of the dataset
    loader: str = ""  # further arguments of the loader
    after: str = ""  # once the loader is there
    each_epoch: str = "pass"
    each_step: str = "pass"
    batches: str = "x, y = batch"  # what a batch is unpacked by
    result: str = "x, TARGETS[index]"  # what a sample is
    samples: int | None = None  # if not any number
    takes_order: bool = True  # whether the loader may be told to shuffle
    wraps: bool = True  # whether the dataset may be wrapped


_HARD = """
class Hard(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count, self.first = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        for number in range(self.count):
            yield (number + self.first) % self.count
"""
_AS_IT_GOES = """
class AsItGoes(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            yield int(torch.randint(self.count, (1,)))
"""
_AT_ONCE = """
class AtOnce(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count // 4

    def __iter__(self):
        return iter(torch.randperm(self.count)[: len(self) * 4].view(-1, 4).tolist())
"""
_BY_EPOCH = """
class ByEpoch(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count, self.epoch = count, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.count

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.count, generator=generator).tolist())
"""
_STORE = """
import struct, tempfile
FOLDER = tempfile.mkdtemp()
ROWS = [struct.pack("4f", *row) for row in INPUTS.tolist()]

def unpacked(data):
    return torch.tensor(struct.unpack("4f", data))
"""
_RAW = _STORE + 'open(FOLDER + "/rows", "wb").write(b"".join(ROWS))\n'
_ZIP = (
    _STORE
    + """
import zipfile
with zipfile.ZipFile(FOLDER + "/rows.zip", "w") as file:
    for number, row in enumerate(ROWS):
        file.writestr(str(number), row)
"""
)
_TAR = (
    _STORE
    + """
import io, tarfile
with tarfile.open(FOLDER + "/rows.tar", "w") as file:
    for number, row in enumerate(ROWS):
        info = tarfile.TarInfo(str(number))
        info.size = len(row)
        file.addfile(info, io.BytesIO(row))
"""
)
_SQLITE = (
    _STORE
    + """
import sqlite3
with sqlite3.connect(FOLDER + "/rows.db") as made:
    made.execute("create table rows (number integer primary key, data blob)")
    made.executemany("insert into rows values (?, ?)", list(enumerate(ROWS)))
"""
)
_SERVER = (
    _STORE
    + """
import socket, threading
OURS, THEIRS = socket.socketpair()

def answer():
    while number := THEIRS.recv(4):
        THEIRS.sendall(ROWS[struct.unpack("i", number)[0]])

threading.Thread(target=answer, daemon=True).start()
"""
)
_ECHO = (
    _STORE
    + """
import subprocess
ECHO = "import sys\\nfor line in sys.stdin: print(line, end='', flush=True)"
"""
)
_TRANSFORM = """
class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor
"""

CHANGES = (
    Mechanism("attribute, each step", True, init="self.blur = 1.0", get="x = x * self.blur",
              each_step="data.blur = data.blur * 0.9"),
    Mechanism("method, each step", True, init="self.moment = 0", get="x = x / (1 + self.moment)",
              methods="def advance(self):\n    self.moment += 1", each_step="data.advance()"),
    Mechanism("method, each epoch", True, init="self.epoch = 0", get="x = x / (1 + self.epoch)",
              methods="def set_epoch(self, epoch):\n    self.epoch = epoch", each_epoch="data.set_epoch(epoch)"),
    Mechanism("attribute, each epoch", True, init="self.level = 0", get="x = x / (1 + self.level)",
              each_epoch="data.level = epoch"),
    Mechanism("attribute, each long epoch", True, init="self.level = 0", get="x = x / (1 + self.level)",
              each_epoch="data.level = epoch // 2", samples=1600),
    Mechanism("attribute of a transform", True, setup=_TRANSFORM, init="self.transform = Scale(1.0)",
              get="x = self.transform(x)", each_step="data.transform.factor *= 0.9"),
    Mechanism("growing buffer", True, init="self.rows = [INPUTS[0]]",
              get="x = x + self.rows[index % len(self.rows)]", each_step="data.rows.append(torch.randn(4))"),
    Mechanism("weights of hard samples", True, setup="import numpy", init="self.weights = numpy.ones(len(INPUTS))",
              get="x = x * float(self.weights[index])", each_step="data.weights[: len(x)] *= 0.9"),
    Mechanism("global of the module", True, setup="FACTOR = 1.0", get="x = x * FACTOR", each_step="FACTOR *= 0.9"),
    Mechanism("state of a closure", True, setup="""
def scaled(state):
    return lambda x: x * state["factor"]

STATE = {"factor": 1.0}
""", init="self.transform = scaled(STATE)", get="x = self.transform(x)", each_step='STATE["factor"] *= 0.9'),
    Mechanism("open file", True, setup=_RAW, init='self.file = open(FOLDER + "/rows", "rb")',
              get="self.file.seek(16 * index)\nx = unpacked(self.file.read(16))"),
    Mechanism("open zip file", True, setup=_ZIP, init='self.file = zipfile.ZipFile(FOLDER + "/rows.zip")',
              get="x = unpacked(self.file.read(str(index)))"),
    Mechanism("open tar file", True, setup=_TAR,
              init='self.file = tarfile.open(FOLDER + "/rows.tar")\nself.members = self.file.getmembers()',
              get="x = unpacked(self.file.extractfile(self.members[index]).read())"),
    Mechanism("open database", True, setup=_SQLITE, init='self.rows = sqlite3.connect(FOLDER + "/rows.db")',
              get='x = unpacked(self.rows.execute("select data from rows where number = ?", (index,)).fetchone()[0])'),
    Mechanism("socket", True, setup=_SERVER, init="self.server = OURS",
              get='self.server.sendall(struct.pack("i", index))\nx = unpacked(self.server.recv(16))'),
    Mechanism("pipe to a program", True, setup=_ECHO,
              init="""
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
self.program = subprocess.Popen([sys.executable, "-c", ECHO], text=True, **pipes)
""", get="""
self.program.stdin.write(f"{index}\\n")
self.program.stdin.flush()
x = INPUTS[int(self.program.stdout.readline())]
"""),
    Mechanism("number of the worker", True,
              get="worker = torch.utils.data.get_worker_info()\nx = x + (worker.id + 1 if worker else 0)"),
    Mechanism("shared memory", True, init="self.level = torch.ones(1).share_memory_()", get="x = x * self.level",
              each_step="data.level *= 0.9"),
    Mechanism("count of loads", True, init="self.loads = 0", get="self.loads += 1\nx = x / self.loads"),
    Mechanism("generator of its own", True, init="self.generator = torch.Generator().manual_seed(0)",
              get="x = x + torch.randn(4, generator=self.generator)"),
    Mechanism("sampler that is told", True, setup=_HARD, loader="sampler=(chosen := Hard(len(data)))",
              each_step="chosen.first = int(1000 * loss.item())", takes_order=False),
    Mechanism("sampler that draws as it goes", True, setup=_AS_IT_GOES, loader="sampler=AsItGoes(len(data))",
              takes_order=False),
    Mechanism("batches drawn when they are asked for", True, setup=_AT_ONCE,
              loader="batch_sampler=AtOnce(len(data))", takes_order=False),
    Mechanism("collate function that counts", True, setup="""
class Counting:
    def __init__(self):
        self.batches = 0

    def __call__(self, samples):
        self.batches += 1
        x, y = torch.utils.data.default_collate(samples)
        return x / self.batches, y
""", loader="collate_fn=Counting()"),
    Mechanism("collate function that is told", True, setup=_TRANSFORM + """
SCALE = Scale(1.0)

def collate(samples):
    x, y = torch.utils.data.default_collate(samples)
    return SCALE(x), y
""", loader="collate_fn=collate", each_step="SCALE.factor *= 0.9"),
    # What follows is done between long epochs, of which no second one is seen: it is read.
    Mechanism("callback that holds it", True, setup="""
class Curriculum:
    def __init__(self, dataset):
        self.dataset = dataset

    def begin(self, epoch):
        self.dataset.level = epoch
""", init="self.level = 0", get="x = x / (1 + self.level)", after="callbacks = [Curriculum(data)]",
              each_epoch="for callback in callbacks:\n    callback.begin(epoch)", samples=1600),
    Mechanism("argument by its name", True, setup="def harder(dataset, epoch):\n    dataset.level = epoch",
              init="self.level = 0", get="x = x / (1 + self.level)", each_epoch="harder(epoch=epoch, dataset=data)",
              samples=1600),
    Mechanism("global set in a function", True,
              setup="LEVEL = 0\n\ndef harder(epoch):\n    global LEVEL\n    LEVEL = epoch",
              get="x = x / (1 + LEVEL)", each_epoch="harder(epoch)", samples=1600),
    Mechanism("function that calls another", True, setup="""
def set_level(one, level):
    one.level = level

def adjust(epoch, dataset):
    print("epoch", epoch)
    set_level(dataset, epoch)
""", init="self.level = 0", get="x = x / (1 + self.level)", each_epoch="adjust(epoch, data)", samples=1600),
    Mechanism("list that is shuffled", True, setup="import random", init="self.rows = list(range(len(INPUTS)))",
              get="x = INPUTS[self.rows[index]]", each_epoch="random.shuffle(data.rows)", samples=1600),
    Mechanism("labels that a function replaces", True, setup="""
@torch.no_grad()
def relabel(dataset, epoch):
    for index in torch.arange(0, len(TARGETS), 2 + epoch).tolist():
        dataset.labels[index] = 1
""", init="self.labels = TARGETS.tolist()", result="x, self.labels[index]",
              each_epoch="relabel(data, epoch) if epoch else None", samples=1600),
    Mechanism("model that is trained", True, setup="ENCODERS = []",
              get="with torch.no_grad():\n    x = x + ENCODERS[0](x)[:1] if ENCODERS else x",
              each_step="ENCODERS[:] = [model]"),
    Mechanism("count that tells only later", True, init="self.served = 0",
              get="self.served += 1\nx = x * (2 if self.served > 1700 else 1)", samples=1600),
    Mechanism("worker that is asked for a batch", True, setup="""
def collate(samples):
    x, y = torch.utils.data.default_collate(samples)
    return x + (0 if torch.utils.data.get_worker_info() is None else 1), y
""", loader="collate_fn=collate"),
    Mechanism("handles that a function keeps", True, setup=_RAW + """
import functools

@functools.lru_cache(maxsize=4)
def opened(path):
    return open(path, "rb")

opened(FOLDER + "/rows").read(16)
""", get='file = opened(FOLDER + "/rows")\nfile.seek(16 * index)\nx = unpacked(file.read(16))'),
    Mechanism("generator of a class, seldom", True, setup="""
import random

class Seldom:
    numbers = random.Random(0)

    def __call__(self, x, index):
        return x + self.numbers.random() if index % 50 == 49 else x
""", init="self.transform = Seldom()", get="x = self.transform(x, index)"),
    Mechanism("dataset of a package", True, setup="""
import sys
import types

package = types.ModuleType("package")
exec(compile('''
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, rows):
        self.rows, self.factor = rows, 1.0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index] * self.factor
''', torch.__file__, "exec"), vars(package))
package.__file__ = torch.__file__
sys.modules["package"] = package
""", init="self.inner = package.Rows(INPUTS)", get="x = self.inner[index]",
              each_epoch="data.inner.factor = 1.0 + epoch", samples=1600),
    Mechanism("order that is drawn in blocks", True, setup="""
class Blocks(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for first in range(0, self.count, 800):
            yield from (first + torch.randperm(800)).tolist()
""", loader="sampler=Blocks(len(data))", takes_order=False, samples=1600, wraps=False),
)  # fmt: skip
"""Mechanisms by which they change the numbers."""

ALIKE = (
    Mechanism("plain", False),
    Mechanism("cache", False, init="self.cache = {}",
              get="x = self.cache.setdefault(index, x * 2)"),
    Mechanism("counter for nobody", False, init="self.loads = 0", get="self.loads += 1"),
    Mechanism("file opened for each sample", False, setup=_RAW,
              get='with open(FOLDER + "/rows", "rb") as file:\n    file.seek(16 * index)\n'
                  "    x = unpacked(file.read(16))"),
    Mechanism("file opened when it is needed", False, setup=_RAW, init="self.file = None",
              get='if self.file is None:\n    self.file = open(FOLDER + "/rows", "rb")\n'
                  "self.file.seek(16 * index)\nx = unpacked(self.file.read(16))"),
    Mechanism("database for each process", False, setup=_SQLITE + "import os\n", init="self.of = {}",
              get='rows = self.of.get(os.getpid()) or sqlite3.connect(FOLDER + "/rows.db")\n'
                  "self.of[os.getpid()] = rows\n"
                  'x = unpacked(rows.execute("select data from rows where number = ?", (index,)).fetchone()[0])'),
    Mechanism("descriptor without a place", False, setup=_RAW + "import os\n",
              init='self.file = os.open(FOLDER + "/rows", os.O_RDONLY)',
              get="x = unpacked(os.pread(self.file, 16, 16 * index))"),
    Mechanism("mapped file", False, setup=_RAW + "import numpy\n",
              init='self.rows = numpy.memmap(FOLDER + "/rows", "float32", "r", shape=(len(INPUTS), 4))',
              get="x = torch.tensor(self.rows[index])"),
    Mechanism("generator for each sample", False,
              get="x = x + torch.randn(4, generator=torch.Generator().manual_seed(index))"),
    Mechanism("samples without ==", False, setup="""
class Pair:
    def __init__(self, x, y):
        self.x, self.y = x, y

def collate(samples):
    return torch.stack([one.x for one in samples]), torch.stack([one.y for one in samples])
""", loader="collate_fn=collate", result="Pair(x, TARGETS[index])"),
    Mechanism("missing values", False, setup="INPUTS[::7, 3] = float('nan')",
              batches="x, y = batch[0].nan_to_num(), batch[1]"),
    Mechanism("generator of the loader", False, loader="generator=torch.Generator().manual_seed(3), shuffle=True",
              takes_order=False),
    Mechanism("order by the epoch", False, setup=_BY_EPOCH, loader="sampler=(chosen := ByEpoch(len(data)))",
              each_epoch="chosen.set_epoch(epoch)", takes_order=False),
    Mechanism("note for nobody", False, init="self.last_loss = 0.0", each_step="data.last_loss = loss.item()"),
    Mechanism("other dataset that changes", False, setup=_TRANSFORM + "SHOWN = Scale(1.0)\n",
              each_step="SHOWN.factor *= 0.9"),
    Mechanism("transform chosen once", False, setup=_TRANSFORM, init="self.transform = None",
              get="x = self.transform(x)", after="data.transform = Scale(2.0)"),
    Mechanism("constant of the module", False, setup="FACTOR = 2.0", get="x = x * FACTOR"),
    Mechanism("long list", False, init='self.names = [f"{number}.png" for number in range(20_000)]',
              get="x = x + len(self.names[index])"),
    Mechanism("weights drawn once", False, init="self.weights = torch.rand(len(INPUTS))",
              get="x = x * self.weights[index]"),
    Mechanism("log that is written", False, setup=_STORE, init='self.log = open(FOLDER + "/log", "a")',
              each_step='data.log.write(f"{loss.item()}\\n")'),
    Mechanism("attribute named as a variable of the loop", False, init="self.y = 2.0", get="x = x * self.y"),
    Mechanism("evaluation that is given it", False, setup="""
def evaluate(dataset):
    sums = []
    for index in range(4):
        sums.append(dataset[index][0].sum().item())
    sums.sort()
    return sums
""", each_epoch="evaluate(data)", samples=1600),
    Mechanism("callback that holds something else", False, setup="""
class Log:
    def __init__(self):
        self.level = 0

    def begin(self, epoch):
        self.level = epoch
""", init="self.level = 1", get="x = x / (1 + self.level)", after="callbacks = [Log()]",
              each_epoch="for callback in callbacks:\n    callback.begin(epoch)", samples=1600),
    Mechanism("history for a report", False, init="self.history = []",
              methods="def record(self, loss):\n    self.history.append(loss)\n\n"
                      "def report(self):\n    return sum(self.history)", each_step="data.record(loss.item())"),
    Mechanism("file that was mapped", False, setup=_RAW + "import mmap\n",
              init='self.file = open(FOLDER + "/rows", "rb")\n'
                   "self.rows = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)",
              get="x = unpacked(self.rows[16 * index : 16 * index + 16])"),
    Mechanism("model that is not trained", False,
              init="self.encoder = [nn.Linear(4, 4)]\nself.encoder[0].requires_grad_(False)",
              get="x = self.encoder[0](x)"),
)  # fmt: skip
"""What looks like one of them, and changes nothing."""

_SCRIPT = """
import sys

import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

torch.manual_seed({seed})
INPUTS = torch.randn({samples}, 4)
TARGETS = (INPUTS.sum(dim=1) > 0).long()
{setup}

class Samples(Dataset):
    def __init__(self):
{init}

    def __len__(self):
        return len(INPUTS)

    def __getitem__(self, index):
        x = INPUTS[index]
{get}
        return {result}
{methods}

{main}
"""
_MAIN = """
torch.manual_seed({seed})
data = Samples()
loader = DataLoader({wrapped}{size}{arguments})
{after}
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
optimizer = torch.optim.{optimizer}
for epoch in range({epochs}):
{each_epoch}
    for number, batch in enumerate(loader):
        {batches}
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print("loss", repr(loss.item()), flush=True)
{each_step}
"""
_WRAPPED = ("data", "Subset(data, range(0, len(data), 2))", "ConcatDataset([data, Subset(data, range(8))])")
_OPTIMIZERS = ("SGD(model.parameters(), lr=0.1)", "Adam(model.parameters(), lr=0.01)")


def draw(mechanism: Mechanism, seed: int) -> str:
    """Return the source of a script in which one mechanism is at work; for one seed the same."""
    chance = random.Random(f"{mechanism.name} {seed}")
    batch = chance.choice((4, 8))
    wrapped = chance.choice(_WRAPPED) if mechanism.wraps and "len(data)" not in mechanism.loader else "data"
    arguments = [mechanism.loader] if mechanism.loader else []
    if mechanism.takes_order and chance.random() < 0.7:
        arguments.append("shuffle=True")
    if chance.random() < 0.3:
        arguments.append("num_workers=1")
    if chance.random() < 0.3 and "batch_sampler" not in mechanism.loader:
        arguments.append("drop_last=True")
    main = _MAIN.format(
        seed=seed,
        wrapped=wrapped,
        size="" if "batch_sampler" in mechanism.loader else f", batch_size={batch}",
        arguments="".join(f", {one}" for one in arguments),
        after=mechanism.after,
        optimizer=chance.choice(_OPTIMIZERS),
        epochs=chance.choice((3, 4)),
        each_epoch=_indented(mechanism.each_epoch, 4),
        batches=mechanism.batches,
        each_step=_indented(mechanism.each_step, 8),
    )
    if chance.random() < 0.5 and "FACTOR *=" not in main:
        main = f"def main():\n{_indented(main, 4)}\n\nif __name__ == '__main__':\n    main()\n"
    return _SCRIPT.format(
        seed=seed,
        samples=mechanism.samples or chance.choice((128, 192, 320)),
        setup=mechanism.setup,
        init=_indented(mechanism.init, 8),
        get=_indented(mechanism.get, 8),
        result=mechanism.result,
        methods=_indented(mechanism.methods, 4),
        main=main,
    )


def _indented(code: str, spaces: int) -> str:
    return textwrap.indent(code.strip("\n"), " " * spaces)
