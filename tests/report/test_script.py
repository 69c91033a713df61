"""What was seen of a script, in words."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
from rich.console import Console

from autoaccel.records.progress import ScriptSeen
from autoaccel.records.script import BY_HAND, LoaderKey, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.script_metric import FileMetric
from autoaccel.records.seen import ScriptFacts
from autoaccel.report.lines import LineWriter
from autoaccel.report.script import script_rows, script_table

FACTS = ScriptFacts(
    models=(SeenModel("Generator", 1000, 1000, "gan.py:40"), SeenModel("Critic", 2000, 500, "gan.py:41")),
    optimizers=(SeenOptimizer("Adam", 500, "gan.py:44"), SeenOptimizer("SGD", 1000, "gan.py:45")),
    loaders=(
        SeenLoader(LoaderKey("Images", 640, 64, "RandomSampler"), "gan.py:30", 10, feeds=True, workers=2),
        SeenLoader(LoaderKey("Stream", None, None, "Buckets"), "", None, feeds=False),
    ),
    cycle=(0, 0, 1),
    device="cpu",
    step_seconds=0.25,
    steps_seen=8,
    steps_per_epoch=10,
    planned_steps=50,
    planned_from="range(5) in gan.py:50, loader in gan.py:51",
    has_loss=True,
    does=("clips gradients by their norm", "seeds torch"),
)
SEEN = ScriptSeen(FACTS, 50, ("loader.workers", "optimizer.fused"), {"a.b": "no", "c.d": "never", "e.f": "no"})


def test_each_part_has_its_words() -> None:
    assert script_rows(SEEN) == [
        ("model", "Generator, 1,000 parameters (gan.py:40)"),
        ("model", "Critic, 2,000 parameters, of which 500 are trained (gan.py:41)"),
        ("optimizer", "Adam, 500 parameters (gan.py:44)"),
        ("optimizer", "SGD, 1,000 parameters (gan.py:45)"),
        ("loader", "trained on: Images of 640 samples, batches of 64, 10 an epoch, 2 workers (gan.py:30)"),
        ("loader", "evaluated on: Stream, 0 workers"),
        ("step", "3 updates: Adam, Adam, SGD; 250 ms each, seen 8 times"),
        ("planned", "50 steps, 10 an epoch: range(5) in gan.py:50, loader in gan.py:51"),
        ("does already", "clips gradients by their norm, seeds torch"),
        ("judged by", "training loss"),
        ("can be tuned", "loader.workers, optimizer.fused"),
        ("not tuned", "a.b, e.f: no"),
        ("not tuned", "c.d: never"),
    ]


def test_updates_by_hand_are_no_class_of_the_users() -> None:
    for count, words in ((1000, "updates by hand, 1,000 parameters (a.py:4)"), (0, "updates by hand (a.py:4)")):
        optimizers = (SeenOptimizer(BY_HAND, count, "a.py:4"),)
        facts = msgspec.structs.replace(FACTS, optimizers=optimizers, cycle=(0,))
        rows = dict(script_rows(msgspec.structs.replace(SEEN, script=facts)))
        assert rows["optimizer"] == words
        assert rows["step"] == "an update by hand; 250 ms each, seen 8 times"


def test_what_could_not_be_read_is_said_to_be_assumed() -> None:
    facts = msgspec.structs.replace(FACTS, planned_steps=None, steps_per_epoch=None, has_loss=False, does=())
    rows = dict(script_rows(msgspec.structs.replace(SEEN, script=facts, planned_steps=1000, open=())))
    assert rows["planned"] == (
        "1,000 steps: assumed, because the loops around its updates cannot be read; say it with --steps N or --hours H"
    )
    assert rows["judged by"] == "nothing: the script never calls backward() on a loss"
    assert rows["can be tuned"] == "nothing" and "does already" not in rows


def test_what_it_writes_elsewhere_is_told_in_short() -> None:
    paths = (f"{Path.home()}/runs", *(f"/data/{number}" for number in range(6)))
    seen = msgspec.structs.replace(SEEN, script=msgspec.structs.replace(FACTS, writes=paths))
    assert dict(script_rows(seen))["writes"] == (
        "outside of the copy of its working folder, in each trial: "
        "~/runs, /data/0, /data/1, /data/2, /data/3 and 2 more"
    )


def test_a_metric_of_its_own_is_told_with_where_it_is_found() -> None:
    facts = msgspec.structs.replace(FACTS, metric=FileMetric("out/metrics.json", "accuracy"), has_loss=False)
    seen = msgspec.structs.replace(SEEN, script=facts, metric="accuracy", direction="maximize")
    assert dict(script_rows(seen))["judged by"] == "accuracy (maximize): accuracy in metrics.json"


def test_a_log_has_a_line_for_each() -> None:
    text = io.StringIO()
    LineWriter(Console(file=text, width=60), clock=lambda: 0.0).hear(SEEN)
    lines = text.getvalue().splitlines()
    assert len(lines) == len(script_rows(SEEN))
    assert lines[0] == "[    0.0 s] script  model  Generator, 1,000 parameters (gan.py:40)"


def test_a_table_names_each_kind_once() -> None:
    text = io.StringIO()
    Console(file=text, width=100).print(script_table(script_rows(SEEN)))
    assert text.getvalue().count("loader  ") == 1 and "evaluated on: Stream" in text.getvalue()
