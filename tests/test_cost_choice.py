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
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine

MACHINE = some_machine()


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let nothing lie in the caches of this machine, and nothing come with Metol but what a test puts there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cost_choice, "_SHIPPED", tmp_path / "shipped")
    return tmp_path / "shipped"


def saved(path: Path, name: str) -> str:
    some_weights(cpu_space(chain)[1]).with_notes({"name": name}).save(path)
    return name


def of_vectors(size_bytes: int) -> CpuMachine:
    return replace(MACHINE, integer_vector_bytes=size_bytes, float_vector_bytes=size_bytes)


def name_of(weights: Weights | None) -> str | None:
    return None if weights is None else weights.notes["name"]


def test_the_analytical_model_has_no_weights() -> None:
    saved(own_weights_path(MACHINE), "own")
    assert choose_weights(ANALYTICAL, MACHINE) is None


def test_without_any_there_are_none() -> None:
    assert choose_weights(AUTO, MACHINE) is None


def test_those_of_the_vectors_are_next_and_those_of_the_machine_first(shipped: Path) -> None:
    saved(shipped / "x86-64-avx2.npz", "of 32 bytes")
    saved(shipped / "x86-64-avx512.npz", "of 64 bytes")
    assert name_of(choose_weights(AUTO, of_vectors(32))) == "of 32 bytes"
    assert name_of(choose_weights(AUTO, of_vectors(64))) == "of 64 bytes"
    assert choose_weights(AUTO, of_vectors(16)) is None
    saved(own_weights_path(MACHINE), "own")
    assert name_of(choose_weights(AUTO, MACHINE)) == "own"


def test_own_weights_lie_beside_the_calibration() -> None:
    path = own_weights_path(MACHINE)
    assert path.parent == MACHINE.cache_path().parent
    assert path.name.startswith(MACHINE.cache_path().stem)
    assert path != own_weights_path(replace(MACHINE, name="another"))


def test_a_gpu_has_the_analytical_model() -> None:
    saved(own_weights_path(MACHINE), "own")
    assert choose_weights(AUTO, GpuMachine.preset("rtx-2080-ti", threads=2)) is None


def test_a_file_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    saved(path, "first")
    first = choose_weights(str(path), MACHINE)
    assert name_of(first) == "first"
    assert choose_weights(str(path), MACHINE) is first
    saved(path, "second")
    assert name_of(choose_weights(str(path), MACHINE)) == "second"


def test_a_file_that_is_missing_or_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some notes of mine")
    for name in ("missing.npz", "notes.txt", "."):
        with pytest.raises(WeightsError, match="is no file of weights"):
            choose_weights(str(tmp_path / name), MACHINE)
