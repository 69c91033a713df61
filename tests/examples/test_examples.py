"""The examples train what they say, on data that is held out where they say so."""

import importlib.util
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cases import rest_is_long

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("PIL")

from torch.utils.data import DataLoader  # noqa: E402  # after it is known that they can be imported

from autoaccel import Training  # noqa: E402  # after it is known that they can be imported
from autoaccel.runtime.metrics import read_metric  # noqa: E402  # after it is known that they can be imported

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = ("digits_cnn", "char_gpt", "image_pipeline", "tabular_mlp")


def load(name: str) -> ModuleType:
    """Return an example as a module, run once however often it is asked for."""
    alias = f"autoaccel_example_{name}"
    if alias not in sys.modules:
        spec = importlib.util.spec_from_file_location(alias, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[alias] = module
        spec.loader.exec_module(module)
    return sys.modules[alias]


@pytest.fixture(autouse=True)
def same_random_numbers() -> Iterator[None]:
    """Seed torch, and leave the generator as it was found."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def rows(data: Any) -> set[bytes]:
    """Return the inputs of every sample, as bytes."""
    return {data[index][0].numpy().tobytes() for index in range(len(data))}


@pytest.mark.parametrize("name", rest_is_long(NAMES))
def test_build_returns_a_training_and_some_steps_lower_the_loss(name: str) -> None:
    training = load(name).build()
    assert isinstance(training, Training)
    optimizer = training.optimizer(training.model.parameters())
    loader = DataLoader(training.train_data, training.batch_size, shuffle=True)
    losses = []
    for _ in range(4):
        for inputs, target in islice(loader, 6):
            loss = training.loss(training.model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    # Means, because the loss of one batch tells little: the last quarter of the steps against the first.
    assert sum(losses[-6:]) < 0.9 * sum(losses[:6])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_builds_the_same_model_and_samples(name: str) -> None:
    built = []
    for _ in range(2):
        torch.manual_seed(3)
        training = load(name).build()
        built.append([*training.model.state_dict().values(), training.train_data[5][0], training.eval_data[5][0]])
    assert all(torch.equal(one, other) for one, other in zip(*built, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_changes_the_model_but_not_the_held_out_data(name: str) -> None:
    models, held_out = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        training = load(name).build()
        models.append(torch.cat([parameter.flatten() for parameter in training.model.parameters()]))
        held_out.append(training.eval_data)
    assert not torch.equal(*models)
    first, second = held_out
    assert len(first) == len(second) > 100
    for index in range(len(first)):
        assert torch.equal(first[index][0], second[index][0])
        assert torch.equal(torch.as_tensor(first[index][1]), torch.as_tensor(second[index][1]))


@pytest.mark.parametrize("name", rest_is_long(NAMES))
def test_the_metric_is_a_number_that_an_untrained_model_has_too(name: str) -> None:
    training = load(name).build()
    training.model.eval()
    with torch.no_grad():
        loader = DataLoader(training.eval_data, training.batch_size)
        found = read_metric(training.metric.compute(training.model, loader)).metric
    if name == "char_gpt":
        assert training.metric.direction == "minimize"
        assert 3 < found < 8  # log(128) = 4.85 is the loss of an even guess
    else:
        assert training.metric.direction == "maximize"
        assert 0 <= found < 0.9


@pytest.mark.parametrize("name", ["digits_cnn", "tabular_mlp", "char_gpt"])
def test_no_held_out_sample_is_trained_on(name: str) -> None:
    training = load(name).build()
    trained = rows(training.train_data)
    assert len(trained) > 0.9 * len(training.train_data)  # the samples are told apart by what they hold
    assert not trained & rows(training.eval_data)


@pytest.mark.parametrize("name", ["digits_cnn", "tabular_mlp"])
def test_features_are_standardised_by_the_training_rows_alone(name: str) -> None:
    training = load(name).build()
    features, _ = training.train_data.tensors
    dims = 0 if name == "tabular_mlp" else (0, 1, 2, 3)
    mean, spread = features.mean(dims), features.std(dims)
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-4, rtol=0)
    torch.testing.assert_close(spread, torch.ones_like(spread), atol=1e-4, rtol=0)


def test_char_gpt_predicts_the_next_character() -> None:
    training = load("char_gpt").build()
    for data in (training.train_data, training.eval_data):
        text, target = data[7]
        assert len(text) == len(target) == 128
        assert torch.equal(text[1:], target[:-1])
        assert target[-1] == data[8][0][0]  # the next window goes on where this one ends


def test_char_gpt_does_not_see_the_characters_it_predicts() -> None:
    training = load("char_gpt").build()
    training.model.eval()
    text = training.train_data[3][0].unsqueeze(0)
    changed = text.clone()
    changed[0, 64:] = (changed[0, 64:] + 1) % 128
    with torch.no_grad():
        before, after = training.model(text)[0], training.model(changed)[0]
    torch.testing.assert_close(before[:64], after[:64])
    assert not torch.allclose(before[64:], after[64:])


def test_char_gpt_knows_where_a_character_stands() -> None:
    """Without positions, attention would take the text before the last character as a set."""
    training = load("char_gpt").build()
    training.model.eval()
    text = training.train_data[3][0].unsqueeze(0)
    backwards = torch.cat([text[:, :-1].flip(1), text[:, -1:]], dim=1)
    with torch.no_grad():
        assert not torch.allclose(training.model(text)[0, -1], training.model(backwards)[0, -1], atol=1e-4)


def test_image_pipeline_draws_another_tile_each_time_in_training_and_the_same_in_evaluation() -> None:
    training = load("image_pipeline").build()
    (first, label), (second, same_label) = training.train_data[0], training.train_data[0]
    assert label == same_label
    assert not torch.equal(first, second)
    assert torch.equal(training.eval_data[0][0], training.eval_data[0][0])


def test_image_pipeline_distorts_at_random_even_in_the_same_place() -> None:
    module = load("image_pipeline")
    tile = module.cut(module.load_photographs()[0], 0, 0.3, 0.6)
    plain, *distorted = (
        module.to_tensor(each)
        for each in (tile, module.distort(tile, torch.rand(6).tolist()), module.distort(tile, torch.rand(6).tolist()))
    )
    assert plain.shape == (3, 32, 32)
    assert -2 <= plain.min() < plain.max() <= 2
    assert not torch.equal(*distorted)
    assert not any(torch.equal(plain, each) for each in distorted)


def test_image_pipeline_takes_its_random_numbers_from_torch() -> None:
    data = load("image_pipeline").build().train_data
    torch.manual_seed(4)
    first = data[1][0]
    torch.manual_seed(4)
    assert torch.equal(first, data[1][0])


def test_image_pipeline_never_trains_on_a_held_out_pixel() -> None:
    """In a picture whose colour says the column, the columns of both kinds of tiles are disjoint."""
    module = load("image_pipeline")
    columns = torch.arange(640)
    pixels = torch.stack([columns // 256, columns % 256, columns * 0], dim=1).to(torch.uint8)
    image = module.Image.fromarray(pixels.expand(427, 640, 3).contiguous().numpy())

    def columns_of(first_stripe: int) -> set[int]:
        found: set[int] = set()
        for across in (0.0, *torch.rand(300).tolist(), 1 - 2**-24):
            tile = torch.tensor(module.np.array(module.cut(image, first_stripe, across, 0.5))).long()
            found |= set((tile[..., 0] * 256 + tile[..., 1]).flatten().tolist())
        return found

    trained, held_out = columns_of(0), columns_of(1)
    assert min(len(trained), len(held_out)) > 250
    assert not trained & held_out
