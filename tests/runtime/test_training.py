"""What a Training refuses, and its metrics."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.runtime.metrics import METRICS, read_metric
from autoaccel.runtime.tracing import group_of
from autoaccel.runtime.training import Training, is_dataset
from autoaccel.runtime.warmup import has_settled

DATA = TensorDataset(torch.zeros(4, 2), torch.zeros(4).long())
GOOD: dict[str, object] = {
    "model": nn.Linear(2, 2),
    "train_data": DATA,
    "eval_data": DATA,
    "batch_size": 2,
    "epochs": 1,
    "loss": nn.CrossEntropyLoss(),
    "optimizer": torch.optim.SGD,
    "evaluate": "accuracy",
}


def perplexity(model: nn.Module, loader: object) -> float:
    """Return a metric."""
    return 1.0


def evaluate(model: nn.Module, loader: object) -> float:
    """Return a metric under a name that does not say what it measures."""
    return 1.0


class MeanSquaredError:
    """A metric that is an object, as torchmetrics has them."""

    def __call__(self, model: nn.Module, loader: object) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "resnet"}, "model must be a torch.nn.Module, got 'resnet'"),
        ({"optimizer": None}, "optimizer must be a function of the parameters"),
        ({"epochs": 0}, "epochs must be a whole number, at least 1, got 0"),
        ({"epochs": 1.5}, "epochs must be a whole number, at least 1, got 1.5"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1, got 0"),
        ({"batch_size": None}, "batch_size must be given"),
        ({"loss": None}, "exactly one of loss(output, target) and step(model, batch) must be given, got neither"),
        ({"step": len}, "got both"),
        ({"evaluate": "acuracy"}, "one of accuracy, cross_entropy, mse, mae, got 'acuracy'"),
        ({"direction": "minimize"}, "direction of 'accuracy' is 'maximize'"),
        (
            {"evaluate": lambda model, loader: 1.0, "direction": "lower"},
            "must be 'maximize' or 'minimize', got 'lower'",
        ),
        ({"evaluate": perplexity}, "evaluate is perplexity, which reads like a number that is better when smaller"),
        ({"evaluate": partial(perplexity)}, "evaluate is perplexity, which reads like a number that is better when"),
        ({"evaluate": MeanSquaredError()}, 'give direction="minimize", or direction="maximize" if larger is better.'),
        ({"train_data": 5}, "train_data must be a dataset or a function that returns a loader, got 5"),
        ({"eval_data": DataLoader(DATA)}, "eval_data is a loader"),
        ({"settings": ["threads"]}, "settings must be a mapping"),
    ],
)
def test_what_cannot_be_trained_is_one_clear_error(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequestError) as error:
        Training(**{**GOOD, **change})  # type: ignore[arg-type]  # arguments of many types
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (perplexity, "perplexity"),
        (partial(partial(perplexity)), "perplexity"),
        (evaluate, "metric"),
        (lambda model, loader: 1.0, "metric"),
    ],
)
def test_a_metric_of_ones_own_has_its_name_and_direction(function: object, name: str) -> None:
    metric = Training(**{**GOOD, "evaluate": function, "direction": "minimize"}).metric  # type: ignore[arg-type]  # arguments of many types
    assert (metric.name, metric.direction) == (name, "minimize")


@pytest.mark.parametrize(
    ("name", "expected"), [("accuracy", 2 / 3), ("cross_entropy", 0.5514447), ("mse", None), ("mae", None)]
)
def test_standard_metrics(name: str, expected: float | None) -> None:
    """Batches of unequal size count by their samples."""
    inputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    if expected is None:
        targets = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 3.0]])
        expected = {"mse": 10 / 6, "mae": 4 / 6}[name]
    else:
        targets = torch.tensor([0, 1, 1])
    loader = [(inputs[:2], targets[:2]), (inputs[2:], targets[2:])]
    value, scores = read_metric(METRICS[name].compute(nn.Identity(), loader))
    assert scores is not None and len(scores) == 3
    if name == "cross_entropy":
        expected = float(nn.functional.cross_entropy(inputs, targets))
    assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("operator", "group"),
    [
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::convolution_backward", "convolution"),
        ("aten::addmm", "matmul"),
        ("aten::bmm", "matmul"),
        ("aten::native_batch_norm_backward", "normalisation"),
        ("aten::native_layer_norm", "normalisation"),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::_log_softmax", "softmax and loss"),
        ("aten::embedding_dense_backward", "embedding"),
        ("aten::_fused_adam_", "optimizer"),
        ("aten::copy_", "memory"),
        ("aten::to", "memory"),
        ("aten::gelu", "elementwise"),
        ("aten::add_", "elementwise"),
        ("AddmmBackward0", "matmul"),
        ("something else", "other"),
    ],
)
def test_operators_are_grouped(operator: str, group: str) -> None:
    assert group_of(operator) == group


@pytest.mark.parametrize(
    ("seconds", "settled"),
    [
        ([0.1] * 5, False),
        ([0.1] * 6, True),
        ([9.0, 0.5, 0.3, 0.2, 0.1, 0.1], False),
        ([9.0, 0.1, 0.1, 0.1, 0.1, 0.1], True),
        ([0.1, 0.1, 0.1, 0.1, 5.0, 0.1], True),
        ([0.1, 0.1, 0.1, 0.2, 0.2, 0.2], False),
    ],
)
def test_warm_up_ends_when_the_step_time_has_settled(seconds: list[float], settled: bool) -> None:
    assert has_settled(seconds) == settled


def test_a_class_of_datasets_is_no_dataset() -> None:
    """A class such as `list` has the methods of a dataset, and was taken for one though it is called for a loader."""
    assert is_dataset([1, 2])
    assert not is_dataset(list)


def test_a_metric_of_samples_with_several_numbers_is_a_mean_over_samples() -> None:
    outputs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    targets = torch.zeros(3, 2)
    found = read_metric(METRICS["mae"].compute(nn.Identity(), [(outputs[:2], targets[:2]), (outputs[2:], targets[2:])]))
    assert found.metric == pytest.approx(3.5)
    assert found.scores is not None and found.scores.tolist() == [1.5, 3.5, 5.5]
    # Sequences of two lengths: each number counts alike, so that no sample has a score of its own.
    uneven = [(torch.ones(1, 2), torch.zeros(1, 2)), (torch.full((1, 6), 3.0), torch.zeros(1, 6))]
    assert read_metric(METRICS["mae"].compute(nn.Identity(), uneven)) == (pytest.approx(2.5), None)


def test_a_metric_may_return_a_score_for_each_sample() -> None:
    assert read_metric(0.25) == (0.25, None)
    assert read_metric(torch.tensor(0.25)) == (0.25, None)
    found = read_metric(torch.tensor([True, False, True, True]))
    assert found.metric == 0.75
    assert found.scores is not None and found.scores.tolist() == [1.0, 0.0, 1.0, 1.0]
    with pytest.raises(BadRequestError, match=r"a tensor of shape \(2, 2\)"):
        read_metric(torch.zeros(2, 2))
