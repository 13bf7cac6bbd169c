"""What a CUDA driver says, asked of libraries that the tests compile: a driver's questions, a C compiler's answers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from metol.targets import choose_machine, parse_target
from metol.targets.gpu import GpuMachine, compute_capability, detect_gpu

# Two devices: the first is a slice of the second. `VALUES` are cases of a switch.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned flags) { printf("a driver may talk"); fflush(stdout); INIT; return flags; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 40 + ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, device == 41 ? "Fake GPU" : "Slice");
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 16: *value = device == 41 ? 132 : 16; return 0;
    VALUES
    default: return 1;  // an older driver does not know all
    }
}
"""
HOPPER = {
    1: 1024, 8: 49152, 10: 32, 12: 65536, 13: 1980000, 36: 2619000, 37: 5120, 38: 52428800, 39: 2048, 75: 9, 76: 0,
    81: 233472, 82: 65536, 97: 232448, 106: 32, 111: 1024,
}  # fmt: skip


def driver(folder: Path, values: dict[int, int], *, init: str = "", count: int = 2) -> Path:
    """Compile a driver."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    cases = " ".join(f"case {attribute}: *value = {value}; return 0;" for attribute, value in values.items())
    source, library = folder / "driver.c", folder / "libcuda.so.1"
    source.write_text(DRIVER.replace("VALUES", cases).replace("INIT", init).replace("COUNT", str(count)))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def ask(library: Path, limit_seconds: float = 20.0) -> GpuMachine | None:
    return detect_gpu(threads=2, libraries=("libno-such-driver.so", str(library)), limit_seconds=limit_seconds)


def test_a_driver_describes_its_largest_device(tmp_path: Path) -> None:
    machine = ask(driver(tmp_path, HOPPER))
    assert machine == GpuMachine(
        name="Fake GPU",
        capability=compute_capability(9, 0),
        multiprocessors=132,
        clock_hz=1.98e9,
        memory_bytes_per_second=2 * 2.619e9 * 5120 / 8,
        l2_bytes=52428800,
        host_threads=2,
    )


def test_what_a_driver_does_not_know_is_in_the_table(tmp_path: Path) -> None:
    known = {attribute: HOPPER[attribute] for attribute in (13, 38, 75, 76)}
    machine = ask(driver(tmp_path, known))
    assert machine is not None
    assert machine.capability == compute_capability(9, 0)
    assert 0 < machine.memory_bytes_per_second < machine.l2_bytes_per_second


def test_a_driver_knows_what_the_table_does_not(tmp_path: Path) -> None:
    machine = ask(driver(tmp_path, HOPPER | {75: 12, 39: 1536, 106: 24, 81: 102400, 97: 101376}))
    assert machine is not None
    assert machine.capability.version == (12, 0)
    assert machine.max_threads_per_multiprocessor == 1536
    assert machine.max_blocks_per_multiprocessor == 24
    assert machine.capability.shared_bytes_choices == tuple(1024 * size for size in (8, 16, 32, 64, 100))
    assert machine.capability.max_shared_bytes_per_block == 101376
    assert machine.halide_feature == "cuda_capability_86"


@pytest.mark.parametrize("init", ["abort()", "exit(0)", "_exit(0)", "return 100"])
def test_a_driver_that_fails_describes_nothing(init: str, tmp_path: Path) -> None:
    assert ask(driver(tmp_path, HOPPER, init=init)) is None


@pytest.mark.slow
def test_a_driver_that_hangs_is_given_up(tmp_path: Path) -> None:
    assert ask(driver(tmp_path, HOPPER, init="pause()"), limit_seconds=1.0) is None


def test_no_device_no_description(tmp_path: Path) -> None:
    assert ask(driver(tmp_path, HOPPER, count=0)) is None


@pytest.mark.parametrize("values", [HOPPER | {75: 3, 76: 5}, HOPPER | {13: 0}], ids=["too old", "without a clock"])
def test_a_device_that_cannot_be_described_is_none(values: dict[int, int], tmp_path: Path) -> None:
    assert ask(driver(tmp_path, values)) is None


def test_no_driver_no_description(tmp_path: Path) -> None:
    assert ask(tmp_path / "libcuda.so.1") is None


CHOICE = """
import sys
from metol.targets import choose_machine, parse_target
print(choose_machine(parse_target(sys.argv[1])).name)
"""


@pytest.mark.parametrize("target", ["cuda", "host-cuda"])
def test_the_driver_chooses_where_nobody_else_does(target: str, tmp_path: Path) -> None:
    driver(tmp_path, HOPPER)
    folders = f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    command = [sys.executable, "-c", CHOICE, target]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": folders}
    )
    assert done.stdout.strip() == "Fake GPU"


@pytest.mark.gpu
def test_the_gpu_of_this_machine_is_described() -> None:
    machine = detect_gpu()
    if machine is None:
        pytest.skip("no NVIDIA GPU")
    assert choose_machine(parse_target("cuda")) == machine
    version = machine.capability.version
    assert version is not None
    assert machine.capability == compute_capability(*version)
