"""Whether there is an OpenCL device, asked of loaders that are missing, hang, or find none."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import metol.targets.gpu.opencl_devices as opencl_devices
from metol.targets import choose_machine, parse_target
from metol.targets.gpu import GpuMachine, detect_opencl, has_opencl_device

LOADER = """
#include <string.h>
#include <unistd.h>

int clGetPlatformIDs(unsigned most, void **ids, unsigned *count) {
    PAUSE;
    if (count) *count = 1;
    if (ids) ids[0] = (void *)4096;
    return 0;
}
int clGetDeviceIDs(void *platform, unsigned long type, unsigned most, void **ids, unsigned *count) {
    *count = 2;
    for (unsigned i = 0; ids && i < most; ++i) ids[i] = (void *)(8192ul + i);
    return platform == (void *)4096 && type == 0xFFFFFFFFul ? STATUS : -1;
}
int clGetDeviceInfo(void *device, unsigned what, unsigned long most, void *value, unsigned long *size) {
    unsigned long number = device == (void *)8193ul ? 20 : 4;
    switch (what) {
    case 0x102B: strcpy(value, device == (void *)8193ul ? "Some GPU" : "A smaller one"); return 0;
    case 0x1000: number = TYPE; break;
    case 0x1002: break;
    case 0x1004: number = 256; break;
    case 0x1023: number = 32768; break;
    default: return -30;
    }
    memcpy(value, &number, most);
    return 0;
}
"""


def loader(folder: Path, *, status: int = 0, pause: str = "", kind: int = 4) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = folder / "loader.c", folder / "libOpenCL.so.1"
    source.write_text(LOADER.replace("STATUS", str(status)).replace("PAUSE", pause).replace("TYPE", str(kind)))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_a_device_is_found(tmp_path: Path) -> None:
    assert has_opencl_device(("libno-such-loader.so", loader(tmp_path)))


def test_a_platform_without_devices_is_none(tmp_path: Path) -> None:
    assert not has_opencl_device((loader(tmp_path, status=-1),))


def test_no_loader_no_device(tmp_path: Path) -> None:
    assert not has_opencl_device((str(tmp_path / "libOpenCL.so.1"),))


@pytest.mark.slow
def test_a_loader_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    assert not has_opencl_device((loader(tmp_path, pause="pause()"),), limit_seconds=1.0)


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_the_device_of_this_machine_is_found() -> None:
    assert has_opencl_device()


def test_a_gpu_is_described_as_it_tells_itself(tmp_path: Path) -> None:
    found = detect_opencl(threads=3, libraries=(loader(tmp_path),))
    usual = GpuMachine.preset("rtx2080ti")
    assert found is not None
    assert (found.name, found.multiprocessors, found.host_threads) == ("Some GPU", 20, 3)
    assert (found.max_threads_per_block, found.shared_bytes_per_block) == (256, 32768)
    assert found.capability.version is None
    # Its clock it does not tell.
    assert found.clock_hz == usual.clock_hz
    assert found.memory_bytes_per_second < usual.memory_bytes_per_second


def test_of_a_cpu_the_name_alone_is_asked(tmp_path: Path) -> None:
    found = detect_opencl(threads=3, libraries=(loader(tmp_path, kind=2),))
    assert found == replace(GpuMachine.preset("opencl-cpu", threads=3), name="Some GPU")


def test_of_an_nvidia_gpu_its_own_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(GpuMachine.preset("a100", threads=3), name="Some GPU")
    monkeypatch.setattr(opencl_devices, "detect_gpu", lambda *, threads: own)
    assert detect_opencl(threads=3, libraries=(loader(tmp_path),)) == own.for_opencl()


def test_without_a_device_nothing_is_described(tmp_path: Path) -> None:
    assert detect_opencl(libraries=(str(tmp_path / "libOpenCL.so.1"),)) is None
    assert detect_opencl(libraries=(loader(tmp_path, status=-1),)) is None


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_the_device_here_is_what_opencl_schedules_for() -> None:
    here = detect_opencl(threads=2)
    assert choose_machine(parse_target("opencl"), threads=2) == here
    assert choose_machine(parse_target("opencl"), gpu="a100", threads=2).name == "NVIDIA A100 40 GB"


def test_where_there_is_no_device_a_usual_gpu_stands_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.targets.machine.detect_opencl", lambda *, threads: None)
    assert choose_machine(parse_target("opencl"), threads=2) == GpuMachine.preset("rtx2080ti", threads=2).for_opencl()
