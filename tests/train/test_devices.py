"""Samples of several devices: those of one are chosen, and never taken together with those of another."""

from dataclasses import replace
from pathlib import Path

import pytest
from measured_programs import program_of, sampled

from metol.errors import MetolError
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine
from metol.train import ProgramSamples, SampleFiles, make_table, samples_of

NAME = program_of(0)


@pytest.fixture(scope="module")
def everywhere() -> dict[str, ProgramSamples]:
    """One program on a processor and on two GPUs."""
    return {
        "host": sampled(NAME, 5),
        "a100": sampled(NAME, 5, gpu="a100"),
        "h100": sampled(NAME, 5, gpu="h100"),
    }


@pytest.mark.parametrize(
    ("target", "gpu", "chosen"),
    [
        ("host", None, "host"),
        ("cuda", "a100", "a100"),
        ("cuda", "NVIDIA A100", "a100"),
        (None, "a-100", "a100"),
        ("cuda", "h100", "h100"),
    ],
)
def test_samples_of_one_device_are_chosen(
    target: str | None, gpu: str | None, chosen: str, everywhere: dict[str, ProgramSamples]
) -> None:
    assert samples_of(tuple(everywhere.values()), target, gpu) == (everywhere[chosen],)


def test_samples_of_several_devices_are_refused(everywhere: dict[str, ProgramSamples]) -> None:
    mixed = tuple(everywhere.values())
    with pytest.raises(MetolError, match=r"ran on NVIDIA A100 40 GB \(cuda\), NVIDIA H100 SXM \(cuda\), and what is"):
        samples_of(mixed, "cuda")
    for two in (mixed[:2], mixed[1:]):
        with pytest.raises(MetolError, match="choose one device by `--target` and `--gpu`"):
            make_table(two)


def test_what_there_is_none_of_is_told_with_what_there_is(everywhere: dict[str, ProgramSamples]) -> None:
    with pytest.raises(
        MetolError, match=r"no samples for the target `opencl` and the GPU `v100`; .* a processor \(host\)"
    ):
        samples_of((everywhere["host"],), "opencl", "v100")


def test_rows_of_a_gpu_are_those_of_its_own_features(everywhere: dict[str, ProgramSamples], tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    files.append(everywhere["h100"], GpuMachine.preset("h100", threads=2))
    table = make_table(files.load(), files.machine_of)
    assert "num_warps_per_block" in table.features
    assert "shared_turns" in table.terms
    # By the machine that they ran on.
    slower = replace(GpuMachine.preset("h100", threads=2), clock_hz=1e9, memory_bytes_per_second=1e12)
    other = make_table(files.load(), lambda _: slower)
    assert (table.analytical_seconds < other.analytical_seconds).all()


def test_each_device_of_a_folder_has_a_description_and_programs_of_its_own(
    everywhere: dict[str, ProgramSamples], tmp_path: Path
) -> None:
    machines = {
        "host": CpuMachine.default(threads=2),
        "a100": GpuMachine.preset("a100", threads=2),
        "h100": GpuMachine.preset("h100", threads=2),
    }
    files = SampleFiles(tmp_path)
    for name, program in everywhere.items():
        assert files.programs(program.device) == frozenset()
        files.append(program, machines[name])
    for name, program in everywhere.items():
        assert files.machine_of(program) == machines[name]
        assert files.programs(program.device) == {(NAME, 0)}
