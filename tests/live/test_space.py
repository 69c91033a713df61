"""What is tried while a training runs is what its process can take on between two steps without harm."""

from __future__ import annotations

import msgspec

from autoaccel.live.space import live_space
from autoaccel.machine.detect import detect_machine
from autoaccel.records.profile import Demand
from autoaccel.records.script import SeenModel
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KnobContext
from tests.samples import FACTS

MODEL = SeenModel("Net", 1000, 1000, "train.py:1")
SEEN = ScriptFacts((MODEL,), (), (), (0,), "cpu", 0.1, 10, 8, 16, has_loss=True)


def space(seen: ScriptFacts = SEEN, demand: Demand | None = None) -> SearchSpace:
    facts = msgspec.structs.replace(FACTS, script=seen, has_image_convolutions=True, optimizer_has_fused=True)
    return live_space(KnobContext(detect_machine(), facts, demand), "default")


def test_only_what_changes_between_two_steps_is_open() -> None:
    found = space()
    assert "layout.channels_last" in found.open
    assert "compile.mode" not in found.open
    assert "parallel.world_size" not in found.open


def test_what_would_compile_a_script_anew_is_closed() -> None:
    plain, compiled = space(), space(msgspec.structs.replace(SEEN, does=("torch.compile",)))
    closed = {name for name, why in compiled.closed.items() if "compiled anew" in why}
    assert {"layout.channels_last"} <= closed <= plain.open.keys()
    assert compiled.open.keys() == plain.open.keys() - closed
    assert "optimizer.fused" in compiled.open


def test_no_more_workers_are_tried_than_there_is_memory_for() -> None:
    memory = detect_machine().usable_memory_bytes
    few = Demand(0.1, memory // 100, loading_seconds=0.1, busy_seconds=0.0)
    assert max(map(int, space(demand=few).open["loader.workers"])) >= 2
    two = msgspec.structs.replace(few, peak_bytes=int(memory / 3.5))
    assert max(map(int, space(demand=two).open["loader.workers"])) <= 2
    none = msgspec.structs.replace(few, peak_bytes=int(memory / 1.5))
    assert "as much memory" in space(demand=none).closed["loader.workers"]
