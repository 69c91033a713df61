"""The baseline is the user's own: what their code has made of the process is left alone, unless a setting differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from autoaccel.records.messages import Failure, GiveTurn, Turn
from autoaccel.records.settings import Settings, Value
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.knobs import found_settings
from autoaccel.runtime.last_part import LastPart
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.pacer import finishing
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.training import Training
from autoaccel.runtime.turns import taking_turn
from autoaccel.runtime.user_code import read_user_code
from autoaccel.space.knobs import KnobContext, baseline_settings, check_value, default_settings, find_knob
from autoaccel.space.search_space import load_space

CPU = torch.device("cpu")
HAS_BACKENDS_OF_ITS_OWN = hasattr(torch.backends.cudnn, "conv")  # each with a precision, since torch 2.9


USERS: list[tuple[Callable[[], None], str, Value]] = [
    (lambda: torch.set_float32_matmul_precision("high"), "precision.float32_matmul", "high"),
    (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), "precision.float32_matmul", "high"),
    (lambda: setattr(torch.backends.cudnn, "allow_tf32", False), "precision.cudnn_tf32", False),
    (lambda: setattr(torch.backends.cudnn, "benchmark", True), "precision.cudnn_benchmark", True),
    (
        lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
        "precision.bf16_reduction",
        False,
    ),
    (lambda: torch.set_flush_denormal(True), "precision.flush_denormals", True),
    (lambda: torch.set_num_threads(3), "threads.intra_op", 3),
]
"""What a user's file does, and the knob and the value that it amounts to."""

if HAS_BACKENDS_OF_ITS_OWN:
    USERS += [
        (lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"), "precision.float32_matmul", "medium"),
        (lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"), "precision.cudnn_tf32", False),
    ]

OTHERS: Settings = {"precision.float32_matmul": "highest", "threads.intra_op": 2}
"""Values that they do not set; of a switch it is the other one."""


def training(step: Callable[[], Any] = lambda: None, **changes: Any) -> Training:
    data = TensorDataset(torch.ones(8, 4))

    def loss_of(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        step()
        return model(batch[0]).square().mean()  # type: ignore[no-any-return]  # torch leaves it untyped

    return Training(
        **{
            "model": nn.Linear(4, 1),
            "train_data": data,
            "eval_data": data,
            "batch_size": 4,
            "epochs": 1,
            "step": loss_of,
            "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            "evaluate": lambda model, loader: 0.5,
            "device": "cpu",
            **changes,
        }
    )


@pytest.mark.parametrize("in_a_step", [False, True])
@pytest.mark.parametrize(("user", "knob", "value"), USERS)
def test_what_the_users_code_sets_is_the_default_and_stays(
    user: Callable[[], None], knob: str, value: Value, in_a_step: bool, context: KnobContext
) -> None:
    """A TF32 user got a float32 baseline, and TF32 was then discovered; a flag set in a step failed the check."""
    if in_a_step:
        made = training(user)
    else:
        user()
        made = training()
    found = read_user_code(made).settings
    assert found[knob] == value
    at = KnobContext(context.machine, msgspec.structs.replace(context.training, found=found))
    baseline = baseline_settings(at)
    assert baseline[knob] == value
    assert value in find_knob(knob, "").values(at)
    assert load_space("everything", at).fixed.get(knob, value) == value
    loop = Loop(made, Applied(baseline, CPU, found), seed=0)
    loop.step()
    assert found_settings(CPU) == found
    assert loop.applied.check() == ({}, {})


@pytest.mark.parametrize(("user", "knob", "value"), USERS)
def test_a_candidate_that_the_users_step_resets_is_ineffective(
    user: Callable[[], None], knob: str, value: Value
) -> None:
    """It was found at the default as well, and ended the whole tune."""
    made = training(user)
    found = read_user_code(made).settings
    other = OTHERS.get(knob, not value)
    loop = Loop(made, Applied({**found, knob: other}, CPU, found), seed=0)
    assert found_settings(CPU)[knob] == other
    loop.step()
    learned, ineffective = loop.applied.check()
    assert list(ineffective) == [knob]
    assert not learned


class Texts(Dataset[torch.Tensor]):
    """Each of another length, and four numbers wide."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(index + 1, 4)


def pad(texts: list[torch.Tensor]) -> list[torch.Tensor]:
    return [nn.utils.rnn.pad_sequence(texts, batch_first=True)]


def pad_alike(texts: list[torch.Tensor]) -> list[torch.Tensor]:
    return [nn.functional.pad(pad(texts)[0], (0, 0, 0, 24))[:, :24]]


BATCHES: list[tuple[dict[str, Any], bool]] = [
    ({"train_data": Texts(), "collate_fn": pad}, True),
    ({"train_data": Texts(), "collate_fn": pad, "step": lambda: 1 / 0}, True),
    ({"train_data": Texts(), "collate_fn": pad_alike}, False),
    ({"train_data": TensorDataset(torch.ones(10, 4))}, False),  # 4, 4, 2
    ({"train_data": TensorDataset(torch.ones(6, 4))}, False),  # 4, 2
    ({"train_data": lambda: ([torch.ones(4 + n, 4)] for n in itertools.count()), "steps_per_epoch": 100}, True),
    ({"train_data": lambda: ([torch.ones(5 - (n == 9), 4)] for n in itertools.count()), "steps_per_epoch": 100}, True),
]


@pytest.mark.parametrize(("data", "change"), BATCHES)
def test_batches_are_seen_to_change_their_shapes(data: dict[str, Any], change: bool) -> None:
    """Padded to the longest of each, they were compiled anew again and again; the last of an epoch is no such case."""
    assert read_user_code(training(**data)).shapes_change is change


def test_a_batch_that_cannot_be_loaded_later_hides_nothing_of_the_step() -> None:
    steps: list[int] = []

    def batches() -> Iterator[list[torch.Tensor]]:
        yield from [[torch.ones(4, 4)]] * 3
        raise OSError("a damaged file")

    read_user_code(training(step=lambda: steps.append(1), train_data=batches, steps_per_epoch=100))
    assert steps == [1]


def test_batches_that_load_for_long_are_not_looked_at_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody waits for the run to begin: where the first takes a second, it is the only one."""
    now, loaded = [0.0], []

    def batches() -> Iterator[list[torch.Tensor]]:
        for number in itertools.count():
            now[0] += 1.5
            loaded.append(number)
            yield [torch.ones(4, 4)]

    monkeypatch.setattr("autoaccel.runtime.user_code.time.perf_counter", lambda: now[0])
    read_user_code(training(train_data=batches, steps_per_epoch=100))
    assert loaded == [0]


def test_own_values_differ_from_what_a_variable_has_made_of_the_process() -> None:
    """Where a variable brings a candidate to bear, the process has it by itself: it must be checked all the same."""
    here = torch.get_num_threads()
    applied = Applied({"threads.intra_op": here}, CPU, found={"threads.intra_op": here + 1})
    torch.set_num_threads(here + 1)
    assert list(applied.check()[1]) == ["threads.intra_op"]


def test_a_default_that_nobody_has_set_is_not_asserted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer releases of torch use as many inter-op threads as the affinity allows: 1 after binding to one CPU."""
    found = found_settings(CPU)
    applied = Applied(found, CPU, found)
    monkeypatch.setattr(torch, "get_num_interop_threads", lambda: 1)
    assert applied.check() == ({}, {})


def test_inter_op_threads_that_the_user_has_set_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes that count once; a second call raised an error before anything was measured."""

    def refuse(count: int) -> None:
        raise RuntimeError("cannot set number of interop threads after parallel work has started")

    monkeypatch.setattr(torch, "set_num_interop_threads", refuse)
    count = torch.get_num_interop_threads()
    applied = Applied({"threads.inter_op": count + 1})
    assert f"torch uses {count} inter-op threads" in applied.check()[1]["threads.inter_op"]


def test_what_the_training_states_is_brought_to_bear_over_what_its_file_sets(context: KnobContext) -> None:
    torch.set_num_threads(3)
    found = read_user_code(training()).settings
    at = KnobContext(
        context.machine, msgspec.structs.replace(context.training, found=found, settings={"threads.intra_op": 2})
    )
    applied = Applied(baseline_settings(at), CPU, found)
    assert torch.get_num_threads() == 2
    assert applied.check()[0] == {"threads.intra_op": "torch uses 2 threads"}


def test_a_step_under_the_users_own_autocast_is_noticed(context: KnobContext) -> None:
    """The baseline was called float32, and bfloat16 a candidate that changed nothing; float16 one that was not used."""

    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(x).float()

    assert read_user_code(training()).autocast == ""
    found = read_user_code(training(model=Casting()))
    assert found.autocast == "bfloat16"
    at = KnobContext(context.machine, msgspec.structs.replace(context.training, own_autocast=found.autocast))
    assert "uses autocast to bfloat16" in find_knob("precision.autocast", "").why_unavailable(at)


def test_a_step_that_fails_is_told_when_it_is_measured() -> None:
    def fail() -> None:
        raise ValueError("no")

    assert read_user_code(training(fail)) == (found_settings(CPU), "", False, "")


def test_checks_do_not_depend_on_the_users_default_type() -> None:
    """A matrix of float64, which nothing casts, made autocast look ineffective."""
    settings: Settings = {"precision.autocast": "bfloat16", "precision.flush_denormals": True}
    torch.set_default_dtype(torch.float64)
    try:
        assert not Applied(settings).check()[1]
    finally:
        torch.set_default_dtype(torch.float32)


def test_defaults_are_as_ever_where_nobody_has_looked(context: KnobContext) -> None:
    assert default_settings(context)["threads.intra_op"] == 4
    assert check_value(find_knob("threads.intra_op", ""), 2, context, "") == 2


def resetting_after(steps: int) -> Callable[[], None]:
    """Return what a step does that takes a flag back after some steps."""
    made = [0]

    def step() -> None:
        made[0] += 1
        if made[0] > steps:
            torch.set_flush_denormal(False)

    return step


def turn_of(loop: Loop, order: GiveTurn) -> Turn | Failure:
    return make_steps(taking_turn(loop, order, None), loop.step)


def test_an_effect_that_ends_during_a_turn_is_told_with_when() -> None:
    """It was asked only after the first steps; whatever came later was measured and named after the setting."""
    loop = Loop(training(resetting_after(5)), Applied({"precision.flush_denormals": True}), seed=0)
    assert isinstance(turn_of(loop, GiveTurn(seconds=0.0, min_steps=3)), Turn)
    ended = turn_of(loop, GiveTurn(seconds=0.0, min_steps=3))
    assert isinstance(ended, Failure) and ended.kind == "ineffective"
    assert ended.message.startswith("precision.flush_denormals took effect, but no longer after 8 steps: ")


def test_an_effect_that_ends_while_the_metric_is_trained_is_told() -> None:
    loop = Loop(training(resetting_after(1)), Applied({"precision.flush_denormals": True}), seed=0)
    ended = make_steps(finishing(loop, LastPart(loop, steps=2), step_seconds=1.0), loop.step)
    assert isinstance(ended, Failure) and "no longer after 2 steps" in ended.message


def test_what_the_training_states_in_vain_is_no_failure_of_its_own_baseline() -> None:
    """A stated setting that its own steps take back ended the whole tune, as no candidate does."""
    stated: Settings = {"precision.flush_denormals": True}
    loop = Loop(training(resetting_after(0), settings=stated), Applied(stated), seed=0)
    assert isinstance(turn_of(loop, GiveTurn(seconds=0.0, min_steps=1)), Turn)
    assert list(loop.applied.check()[1]) == list(stated)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
def test_reaching_the_limit_of_compilations_ends_the_effect() -> None:
    """From there on new shapes run as if nothing were compiled, and were measured as compiled."""
    from torch._dynamo.utils import counters

    counters.clear()
    settings: Settings = {"compile.mode": "default", "compile.backend": "eager", "compile.dynamic": "off"}
    data = TensorDataset(torch.ones(7, 4))  # batches of 4 and of 3
    try:
        with torch._dynamo.config.patch(cache_size_limit=1):
            loop = Loop(training(train_data=data), Applied(settings), seed=0)
            loop.step()
            assert loop.applied.check()[0]["compile.mode"] == "1 graphs compiled"
            loop.step()
        assert "limit of compilations after 1 graphs" in loop.applied.check()[1]["compile.mode"]
    finally:
        counters.clear()
        torch._dynamo.reset()


@pytest.mark.long
def test_a_file_that_sets_flags_in_its_steps_is_tuned_from_there(
    write_model: Callable[..., Path], tmp_path: Path
) -> None:
    """In a real worker: its baseline has them, and is measured."""
    from autoaccel.runs.workloads import find_workload
    from autoaccel.workers.describing import probe_and_describe
    from autoaccel.workers.starter import WorkerStarter

    path = write_model(
        """
        def step(model, batch):
            torch.set_float32_matmul_precision("high")
            torch.set_flush_denormal(True)
            return nn.functional.cross_entropy(model(batch[0]), batch[1])

        build = functools.partial(build, loss=None, step=step)
        """.replace("build =", "import functools\n        build =")
    )
    workload = find_workload(str(path))
    with WorkerStarter(tmp_path, workload) as starter:
        at = KnobContext(*probe_and_describe(starter, workload, 60.0))
        starter = starter.at(at)
        found = baseline_settings(at)
        assert (found["precision.float32_matmul"], found["precision.flush_denormals"]) == ("high", True)
        measuring = starter.start_measuring(found, "baseline", 60.0)
        assert not isinstance(measuring, Failure), measuring
        measuring.close()
        refused = starter.start_measuring({**found, "precision.flush_denormals": False}, "other", 60.0)
        assert isinstance(refused, Failure) and refused.kind == "ineffective"
        assert "precision.flush_denormals did nothing" in refused.message


@pytest.mark.parametrize(
    ("form", "knob", "value", "others"),
    [
        ({"fused": True}, "optimizer.fused", True, [{"optimizer.fused": False}]),
        ({"fused": True}, "optimizer.fused", True, [{"optimizer.fused": False, "optimizer.foreach": "on"}]),
        ({"foreach": True}, "optimizer.foreach", "on", [{"optimizer.foreach": "auto"}, {"optimizer.foreach": "off"}]),
        ({"foreach": False}, "optimizer.foreach", "off", [{"optimizer.foreach": "auto"}, {"optimizer.foreach": "on"}]),
    ],
)
def test_the_form_of_the_users_optimizer_is_the_default_and_others_are_candidates(
    form: dict[str, bool], knob: str, value: Value, others: list[Settings], context: KnobContext
) -> None:
    """A fused optimizer was measured as it is, but called not fused: no candidate could take the form away."""
    made = training(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.1, **form))
    found = read_user_code(made).settings
    assert found[knob] == value
    baseline = baseline_settings(KnobContext(context.machine, msgspec.structs.replace(context.training, found=found)))
    assert baseline[knob] == value
    loop = Loop(made, Applied(baseline, CPU, found), seed=0)
    loop.step()
    assert all(loop.optimizer.param_groups[0][name] is chosen for name, chosen in form.items())
    assert loop.applied.check() == ({}, {})
    for other in others:
        loop = Loop(made, Applied({**baseline, **other}, CPU, found), seed=0)
        loop.step()
        group = loop.optimizer.param_groups[0]
        assert not group["fused"]
        assert group["foreach"] is {"on": True, "off": False}.get(str(other.get("optimizer.foreach", "auto")))
        learned, ineffective = loop.applied.check()
        assert learned.keys() == other.keys()
        assert not ineffective


def test_a_step_that_changes_what_samples_are_made_of_is_seen() -> None:
    """A loss may turn the difficulty of its dataset up: workers would load what was set when they began."""

    class Harder(torch.utils.data.Dataset[Any]):
        level, told = 1.0, 0.0

        def __len__(self) -> int:
            return 32

        def __getitem__(self, index: int) -> Any:
            return torch.full((4,), self.level), index % 2

    for attribute, name in (("level", "Harder.level"), ("told", "")):
        data = Harder()

        def loss(output: Any, target: Any, data: Any = data, attribute: str = attribute) -> Any:
            setattr(data, attribute, getattr(data, attribute) + 0.5)
            return torch.nn.functional.cross_entropy(output, target)

        made = Training(
            model=torch.nn.Linear(4, 2), train_data=data, eval_data=data, batch_size=4, loss=loss, evaluate="accuracy",
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), epochs=1,
        )  # fmt: skip
        why = read_user_code(made).why_bound
        assert why.startswith(f"the training changes {name} as it trains") if name else not why
