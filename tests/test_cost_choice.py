"""Which weights a search goes by: those that were asked for, else this machine's own, else those of its vectors."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_pipelines import chain, cpu_space, some_machine
from some_weights import some_weights

from metol import cost_choice
from metol.cost import Weights
from metol.cost_choice import ANALYTICAL, AUTO, choose_weights, own_weights_path
from metol.errors import WeightsError
from metol.targets import Machine
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine

MACHINE = some_machine()


def chosen(name: str = AUTO, machine: Machine = MACHINE) -> Weights | None:
    return choose_weights(name, machine, cpu_space(chain)[1])


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let nothing lie in the caches of this machine, and nothing come with Metol but what a test puts there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cost_choice, "_SHIPPED", tmp_path / "shipped.npz")
    return tmp_path / "shipped.npz"


def saved(path: Path, name: str) -> str:
    some_weights(cpu_space(chain)[1]).with_notes({"name": name}).save(path)
    return name


def of_vectors(size_bytes: int) -> CpuMachine:
    return replace(MACHINE, integer_vector_bytes=size_bytes, float_vector_bytes=size_bytes)


def name_of(weights: Weights | None) -> str | None:
    return None if weights is None else weights.notes["name"]


def test_the_analytical_model_has_no_weights() -> None:
    saved(own_weights_path(MACHINE), "own")
    assert chosen(ANALYTICAL) is None


def test_without_any_there_are_none() -> None:
    assert chosen() is None


def test_those_that_come_with_metol_are_next_and_those_of_the_machine_first(shipped: Path) -> None:
    saved(shipped, "shipped")
    assert name_of(chosen(AUTO, of_vectors(32))) == "shipped"
    assert name_of(chosen(AUTO, of_vectors(64))) == "shipped"
    assert chosen(AUTO, of_vectors(16)) is None
    saved(own_weights_path(MACHINE), "own")
    assert name_of(chosen()) == "own"


def test_those_of_another_release_are_passed_over_unless_they_are_named(shipped: Path) -> None:
    saved(shipped, "shipped")
    weights = some_weights(cpu_space(chain)[1])
    old = replace(weights, features=("of_once", *weights.features[1:]))
    old.save(own_weights_path(MACHINE))
    assert name_of(chosen(AUTO, of_vectors(32))) == "shipped"
    named = chosen(str(own_weights_path(MACHINE)))
    assert named is not None
    assert named.features[0] == "of_once"


def test_what_is_broken_is_passed_over_unless_it_is_named() -> None:
    own_weights_path(MACHINE).parent.mkdir(parents=True)
    own_weights_path(MACHINE).write_text("half of a file")
    assert chosen() is None
    with pytest.raises(WeightsError):
        chosen(str(own_weights_path(MACHINE)))


def test_own_weights_lie_beside_the_calibration() -> None:
    path = own_weights_path(MACHINE)
    assert path.parent == MACHINE.cache_path().parent
    assert path.name.startswith(MACHINE.cache_path().stem)
    assert path != own_weights_path(replace(MACHINE, name="another"))


def test_a_gpu_has_the_analytical_model() -> None:
    saved(own_weights_path(MACHINE), "own")
    assert chosen(AUTO, GpuMachine.preset("rtx-2080-ti", threads=2)) is None


def test_a_file_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    saved(path, "first")
    first = chosen(str(path))
    assert name_of(first) == "first"
    assert chosen(str(path)) is first
    saved(path, "second")
    assert name_of(chosen(str(path))) == "second"


def test_a_file_that_is_missing_or_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some notes of mine")
    for name in ("missing.npz", "notes.txt", "."):
        with pytest.raises(WeightsError, match="is no file of weights"):
            chosen(str(tmp_path / name))
