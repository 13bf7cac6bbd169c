"""Trained weights: files lose nothing, what does not fit is refused, and the core reckons as the formulas say."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_pipelines import chain, cpu_space, make_space, matmul
from some_weights import some_member, some_weights

from metol import _core
from metol.cost import Member, Weights
from metol.errors import WeightsError
from metol.pipeline import extract


@pytest.fixture(scope="module")
def space() -> _core.Space:
    return cpu_space(chain)[1]


def leaves_of(space: _core.Space, count: int = 12) -> _core.States:
    return space.rollout(space.root(), range(count))


def assert_same(one: Weights, other: Weights) -> None:
    assert len(one.members) == len(other.members)
    for ours, theirs in zip(one.members, other.members, strict=True):
        for each in fields(Member):
            np.testing.assert_array_equal(getattr(ours, each.name), getattr(theirs, each.name))
            assert getattr(theirs, each.name).dtype == np.float32
    np.testing.assert_array_equal(one.units, other.units)
    assert (one.features, one.terms, one.operations) == (other.features, other.terms, other.operations)
    assert one.notes == other.notes


@pytest.mark.parametrize("members", [1, 3])
def test_a_file_loses_nothing(members: int, space: _core.Space, tmp_path: Path) -> None:
    weights = some_weights(space, members=members, learned=(1, 4))
    path = tmp_path / "a folder" / "of.weights"
    weights.save(path)
    loaded = Weights.load(path)
    assert_same(weights, loaded)
    leaves = leaves_of(space)
    np.testing.assert_array_equal(
        space.cost(leaves, weights.model(space)), space.cost(leaves, loaded.model(_fresh_space()))
    )


def _fresh_space() -> _core.Space:
    """One that remembers nothing."""
    return make_space(extract(chain()))


def test_notes_are_all_that_with_notes_changes(space: _core.Space) -> None:
    weights = some_weights(space)
    noted = weights.with_notes({"scores": {"regret": 0.1}})
    assert noted.notes == {"scores": {"regret": 0.1}}
    assert_same(weights, noted.with_notes(weights.notes))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def spoil(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[300:400] = bytes(100)
    path.write_bytes(bytes(whole))


def with_head(**changes: Any) -> Callable[[Path], None]:
    """Change what stands at the head of a file; None leaves it out."""

    def change(path: Path) -> None:
        with np.load(path) as arrays:
            kept = dict(arrays)
        head = {**json.loads(str(kept["head"])), **changes}
        kept["head"] = np.array(json.dumps({name: value for name, value in head.items() if value is not None}))
        with path.open("wb") as file:
            np.savez(file, **kept)

    return change


def save_one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def save_other_arrays(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, pictures=np.ones(3))


def with_negative_unit(path: Path) -> None:
    """Let a term take less than no time."""
    with np.load(path) as arrays:
        every = {name: arrays[name].copy() for name in arrays.files}
    every["units"][0] = -1
    np.savez(path, **every)


def encrypt(path: Path) -> None:
    """Mark every file in the archive as encrypted."""
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = content.find(mark)
        while start >= 0:
            content[start + place] |= 1
            start = content.find(mark, start + 4)
    path.write_bytes(content)


def with_nan(path: Path) -> None:
    """Replace a number of a matrix by NaN."""
    with np.load(path) as arrays:
        every = {name: arrays[name].copy() for name in arrays.files}
    every["gain_biases_0"][0] = np.nan
    np.savez(path, **every)


@pytest.mark.parametrize(
    ("spoil_file", "message"),
    [
        (with_nan, "are no numbers"),
        (with_negative_unit, "a unit is negative"),
        (encrypt, "is no file of weights"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_text("some notes of mine"), "is no file of weights"),
        (lambda path: path.write_bytes(b""), "is no file of weights"),
        (lambda path: (path.unlink(), path.mkdir()), "is no file of weights"),
        (cut_short, "is no file of weights"),
        (spoil, "is no file of weights"),
        (save_one_array, "is no file of weights"),
        (save_other_arrays, "is no file of weights"),
        (with_head(format="pictures"), "is no file of weights"),
        (with_head(format=None), "is no file of weights"),
        (with_head(terms=None), "is no file of weights"),
        (with_head(version=99), "of version 99; this Metol reads 1"),
        (with_head(members=2), "is no file of weights"),
        (with_head(members=0), "at least one network"),
    ],
)
def test_another_file_is_refused_with_its_name(
    spoil_file: Callable[[Path], None], message: str, space: _core.Space, tmp_path: Path
) -> None:
    path = tmp_path / "mine.npz"
    some_weights(space).save(path)
    spoil_file(path)
    with pytest.raises(WeightsError, match=message) as caught:
        Weights.load(path)
    assert "mine.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "message"), [("features", "other features"), ("terms", "other cost terms"), ("operations", "operations")]
)
def test_weights_about_something_else_are_refused_with_what_to_do(field: str, message: str, space: _core.Space) -> None:
    weights = some_weights(space)
    names = getattr(weights, field)
    for others in ((*names[:-1], "another"), (names[1], names[0], *names[2:])):
        odd = replace(weights, **{field: others})
        for use in (odd.model, odd.member_models, odd.require_fit):
            with pytest.raises(WeightsError, match=rf"{message}.*`metol train fit`"):
                use(space)


def test_weights_without_a_network_are_refused(space: _core.Space) -> None:
    with pytest.raises(WeightsError, match="at least one network"):
        replace(some_weights(space), members=())


@pytest.mark.parametrize("name", [each.name for each in fields(Member)])
def test_a_network_of_other_sizes_than_its_features_have_is_refused(name: str, space: _core.Space) -> None:
    weights = some_weights(space)
    (member,) = weights.members
    for odd in (getattr(member, name)[:-1], getattr(member, name)[None]):
        with pytest.raises(WeightsError, match="do not fit"):
            replace(weights, members=(replace(member, **{name: odd}),))


def test_units_or_names_that_are_too_few_are_refused(space: _core.Space) -> None:
    weights = some_weights(space)
    for name in ("units", "features", "terms", "operations"):
        with pytest.raises(WeightsError, match="do not fit"):
            replace(weights, **{name: getattr(weights, name)[:-1]})


def layers_of(member: Member) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        "schedule": (member.schedule_weights, member.schedule_biases),
        "algorithm": (member.algorithm_weights, member.algorithm_biases),
        "gains": (member.gain_weights, member.gain_biases),
    }


@pytest.mark.parametrize("layer", ["schedule", "algorithm", "gains"])
def test_layers_that_do_not_fit_each_other_are_refused(layer: str, space: _core.Space) -> None:
    layers = layers_of(some_member(space, 0))
    weights, biases = layers[layer]
    units = [0.0] * len(space.term_table())
    _core.Network(**layers, units=units)
    for odd in (
        (weights, biases[:-1]),
        (weights[:, :-1], biases),
        (weights[:, :-1], biases[:-1]),
        (weights[:0], biases),
        (weights[0], biases),
        (weights, biases[None]),
    ):
        with pytest.raises(ValueError, match=r"do not fit|a layer is"):
            _core.Network(**{**layers, layer: odd}, units=units)


def test_units_that_do_not_fit_the_terms_are_refused(space: _core.Space) -> None:
    layers = layers_of(some_member(space, 0))
    for count in (0, len(space.term_table()) - 1, len(space.term_table()) + 1):
        with pytest.raises(ValueError, match="do not fit"):
            _core.Network(**layers, units=[0.0] * count)


def test_rows_that_do_not_fit_a_network_are_refused(space: _core.Space) -> None:
    member, terms = some_member(space, 0), len(space.term_table())
    network = _core.Network(**layers_of(member), units=[0.0] * terms)
    row, analytical = np.ones((2, len(space.feature_table())), np.float32), np.ones((2, terms))
    operations = [1.0] * len(member.algorithm_weights)
    assert network.coefficients(row, operations, analytical).shape == (2, terms)
    for arguments in (
        (row[:, 1:], operations, analytical),
        (row[0], operations, analytical),
        (row, operations[1:], analytical),
        (row, operations, analytical[:, 1:]),
        (row, operations, analytical[1:]),
    ):
        with pytest.raises(ValueError, match=r"rows are|do not fit"):
            network.coefficients(*arguments)


def test_coefficients_are_what_the_formulas_say(space: _core.Space) -> None:
    rng = np.random.default_rng(1)
    terms = len(space.term_table())
    weights = some_weights(space, seed=7, gain=0.5, learned=(0, 3, 5))
    (member,) = weights.members
    # From nothing to a million million, as features are.
    rows = np.where(rng.random((40, len(weights.features))) < 0.3, 0, 10 ** rng.uniform(-3, 12, (40, 1)))
    rows = rows.astype(np.float32)
    operations = rng.integers(0, 50, len(weights.operations)).astype(np.float32)
    analytical = rng.random((40, terms))
    schedule = np.maximum(np.log1p(rows) @ member.schedule_weights + member.schedule_biases, 0)
    algorithm = np.maximum(np.log1p(operations) @ member.algorithm_weights + member.algorithm_biases, 0)
    both = np.concatenate([schedule, np.tile(algorithm, (40, 1))], axis=1)
    z = (both @ member.gain_weights + member.gain_biases).astype(np.float64)
    expected = np.where(weights.units > 0, weights.units * np.maximum(z, 0), analytical * np.exp(np.arcsinh(z)))
    network = _core.Network(**layers_of(member), units=weights.units.tolist())
    found = network.coefficients(rows, operations.tolist(), analytical)
    assert (z > 0.1).any()
    assert (z < -0.1).any()
    # Sums of some hundred floats: what is near zero is known to their last bits alone.
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5 * weights.units.max())


@pytest.mark.parametrize("members", [1, 3])
def test_a_network_whose_gains_are_zero_predicts_as_the_analytical_model(members: int) -> None:
    for build in (chain, matmul):
        space = cpu_space(build)[1]
        leaves = leaves_of(space)
        model = some_weights(space, members=members, gain=0.0).model(space)
        np.testing.assert_array_equal(space.cost(leaves, model), space.cost(leaves, _core.CostModel()))


def test_batches_and_threads_do_not_change_costs() -> None:
    dag = extract(chain())
    one, several = make_space(dag, threads=1), make_space(dag, threads=4)
    weights = some_weights(one, members=2)
    alone = weights.model(one)
    leaves = leaves_of(one, 30)
    each = np.array([one.cost(leaves.take([number]), alone)[0] for number in range(30)])
    assert len(set(each)) > 5
    np.testing.assert_array_equal(_fresh_space().cost(leaves, weights.model(one)), each)
    np.testing.assert_array_equal(several.cost(leaves, weights.model(several)), each)
    # What is remembered is what was found.
    np.testing.assert_array_equal(one.cost(leaves, alone), each)


def test_costs_of_stages_add_up_to_the_cost(space: _core.Space) -> None:
    model = some_weights(space, members=2).model(space)
    leaf = leaves_of(space, 1)
    assert space.stage_costs(leaf, model).sum() == pytest.approx(space.cost(leaf, model)[0], rel=1e-9)
    assert space.cost(leaf, model)[0] != space.cost(leaf, _core.CostModel())[0]


def test_models_with_other_numbers_are_told_apart(space: _core.Space) -> None:
    weights = some_weights(space, members=2)
    ids = {
        one.model(space).id
        for one in (
            weights,
            some_weights(space, members=2, seed=9),
            some_weights(space, members=2, learned=(1,)),
            replace(weights, members=weights.members[:1]),
            replace(weights, members=weights.members[::-1]),
        )
    }
    assert len(ids) == 5
    assert 0 not in ids
    assert some_weights(space, members=2).model(space).id == weights.model(space).id


def test_each_network_of_an_ensemble_has_a_model_of_its_own(space: _core.Space) -> None:
    weights = some_weights(space, members=3)
    leaves = leaves_of(space)
    apart = [space.cost(leaves, model) for model in weights.member_models(space)]
    assert len({tuple(costs) for costs in apart}) == 3
    for member, costs in zip(weights.members, apart, strict=True):
        alone = replace(weights, members=(member,)).model(_fresh_space())
        np.testing.assert_array_equal(_fresh_space().cost(leaves, alone), costs)
