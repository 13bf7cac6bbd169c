"""What all tests share: fixtures for what may be missing, and golden files with the option to rewrite them."""

import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from forked_children import forked_children
from hypothesis import settings

from metol.emulated_cuda import load_emulated_cuda
from metol.errors import MissingToolError
from metol.measure import TimingPlan, find_ptxas, process

# No test asserts a time, so Hypothesis is not to fail one that a busy machine slows down.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# An OpenCL device on the CPU compiles a kernel for each size of a block: the less it optimizes, the sooner tests end.
os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
os.environ.setdefault("POCL_WORK_GROUP_METHOD", "loops")

# A quarter of the time that LLVM takes for code of every size goes into loop strength reduction, which is for code that
# is fast; of what tests compile it is the results that count.
os.environ.setdefault("HL_LLVM_ARGS", "-disable-lsr")

# As many workers run tests as there are cores: threads of NumPy and PyTorch, which wait by spinning, would only be in
# each other's way.
for number in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(number, "1")

START_INTERPRETER = process.start_interpreter


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what comes out now")


def opencl_platforms() -> int:
    """How many OpenCL platforms the loader finds; 0 without a loader."""
    try:
        loader = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint32(0)
    return count.value if loader.clGetPlatformIDs(0, None, ctypes.byref(count)) == 0 else 0


@pytest.fixture(scope="session")
def opencl_device() -> None:
    """Skip where no OpenCL device is there; in CI there must be one."""
    if opencl_platforms() == 0:
        missing = "no OpenCL device; install pocl-opencl-icd and ocl-icd-libopencl1 for one on the CPU"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.fixture
def emulated_gpu() -> None:
    """Let this process have the emulated GPU, for code for CUDA."""
    load_emulated_cuda()


@pytest.fixture(scope="session", autouse=True)
def _children_are_forked() -> Iterator[None]:
    """Start children of the library in no time; those of processes that tests start are fresh interpreters."""
    with forked_children(process):
        yield


@pytest.fixture(scope="session", autouse=True)
def _rounds_are_short() -> Iterator[None]:
    """Let commands time no longer than it takes to see that they do."""
    importlib.import_module("metol.tune.lock_file")  # in whose signatures it is a type
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("metol.measure.TimingPlan", partial(TimingPlan, round_seconds=0.01))
        yield


@pytest.fixture
def fresh_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start children as users have them."""
    monkeypatch.setattr(process, "start_interpreter", START_INTERPRETER)


@pytest.fixture(scope="session")
def ptxas() -> Path:
    """Skip where NVIDIA's assembler is not there; in CI it must be."""
    try:
        return find_ptxas()
    except MissingToolError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, Path], None]:
    """Compare a text with a golden file, or write the file where `--update-golden` is given."""

    def check(text: str, path: Path) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
