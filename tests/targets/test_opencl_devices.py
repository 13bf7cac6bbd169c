"""Whether there is an OpenCL device, asked of loaders that are missing, hang, or find none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from metol.targets.gpu import has_opencl_device

LOADER = """
#include <unistd.h>

int clGetPlatformIDs(unsigned most, void **ids, unsigned *count) {
    PAUSE;
    if (count) *count = 1;
    if (ids) ids[0] = (void *)4096;
    return 0;
}
int clGetDeviceIDs(void *platform, unsigned long type, unsigned most, void **ids, unsigned *count) {
    *count = 1;
    return platform == (void *)4096 && type == 0xFFFFFFFFul ? STATUS : -1;
}
"""


def loader(folder: Path, *, status: int = 0, pause: str = "") -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = folder / "loader.c", folder / "libOpenCL.so.1"
    source.write_text(LOADER.replace("STATUS", str(status)).replace("PAUSE", pause))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_a_device_is_found(tmp_path: Path) -> None:
    assert has_opencl_device(("libno-such-loader.so", loader(tmp_path)))


def test_a_platform_without_devices_is_none(tmp_path: Path) -> None:
    assert not has_opencl_device((loader(tmp_path, status=-1),))


def test_no_loader_no_device(tmp_path: Path) -> None:
    assert not has_opencl_device((str(tmp_path / "libOpenCL.so.1"),))


def test_a_loader_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    assert not has_opencl_device((loader(tmp_path, pause="pause()"),), limit_seconds=1.0)


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_the_device_of_this_machine_is_found() -> None:
    assert has_opencl_device()
