"""What works on this machine, as `metol doctor` shows it.

Enters: nothing but the machine. Leaves: one `Check` for each thing that Metol needs or can use. What may crash or hang,
JIT compilation and plugins above all, is tried in a child process.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from metol.errors import MissingToolError
from metol.findings import Check, Outcome

__all__ = ["examine"]

_CHILD_SECONDS = 120.0
_LEAST_MEMORY_GIB = 2.0
_GIB = 2**30


def examine(
    progress: Callable[[str], None] = lambda _: None, *, halide_threads: str | None = None
) -> tuple[Check, ...]:
    """Make all checks; those that need Halide end with the one that finds it missing.

    Args:
        progress: told the name of each check before it is made.
        halide_threads: the value of HL_NUM_THREADS, by which Halide's runtime goes, or None.
    """
    done: list[Check] = []
    for name, check in _CHECKS:
        progress(name)
        done.append(_check_threads(name, halide_threads) if name == _THREADS else check(name))
        if name in _NEEDED_BY_ALL and done[-1].outcome is Outcome.FAIL:
            break
    return tuple(done)


def _check_python(name: str) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(name, Outcome.OK, f"{version} at {sys.executable}")


def _check_halide(name: str) -> Check:
    advice = "Install Metol anew: `pip install --force-reinstall .` in its checkout brings what it is built with."
    try:
        version = importlib.metadata.version("halide")
    except importlib.metadata.PackageNotFoundError:
        return Check(name, Outcome.FAIL, "not installed", advice)
    done = _run_child("import halide; halide.get_host_target(); print(halide.get_host_target())")
    if not done.is_ok:
        return Check(name, Outcome.FAIL, f"{version} cannot be imported: {done.text}", advice)
    return Check(name, Outcome.OK, f"{version}, {done.text}")


def _check_core(name: str) -> Check:
    wanted = [r for r in _requirements() if r.replace(" ", "").startswith("halide==")]
    installed = importlib.metadata.version("halide")
    if wanted and wanted[0].replace(" ", "") != f"halide=={installed}":
        advice = f"`pip install '{wanted[0]}'`: the C++ interface of Halide changes with its version."
        return Check(name, Outcome.FAIL, f"built for {wanted[0]}, and {installed} is installed", advice)
    done = _run_child(_EXTRACT)
    if not done.is_ok:
        return Check(name, Outcome.FAIL, done.text, "Install Metol anew; it was built for another Halide or Python.")
    return Check(name, Outcome.OK, f"loads, and reads a pipeline of Halide {installed}")


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires("metol") or []
    except importlib.metadata.PackageNotFoundError:  # runs from a source folder
        return []


def _check_jit(name: str) -> Check:
    done = _run_child(_JIT)
    if not done.is_ok:
        advice = "Schedules can be made, but not measured or verified. Are executable pages of memory forbidden here?"
        return Check(name, Outcome.FAIL, done.text, advice)
    return Check(name, Outcome.OK, "a child process compiles, runs and verifies a pipeline")


def _check_threads(name: str, limit: str | None = None) -> Check:
    from metol.targets.cpu import CpuMachine

    machine = CpuMachine.default()
    physical = os.cpu_count() or 1
    found = f"{machine.cores} of {physical} for this process; {machine.name}, vectors of {machine.vector_bytes} bytes"
    if limit is not None and limit != str(machine.cores):
        advice = "Pass threads= or --threads the same number, or unset it."
        return Check(name, Outcome.WARN, f"{found}; HL_NUM_THREADS is {limit}", advice)
    return Check(name, Outcome.OK, found)


def _check_memory(name: str) -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / _GIB
    found = f"{total:.1f} GiB, {free:.1f} of them free"
    if total < _LEAST_MEMORY_GIB:
        return Check(name, Outcome.WARN, found, "Large pipelines may not compile in less than 2 GiB.")
    return Check(name, Outcome.OK, found)


def _check_cache(name: str) -> Check:
    from metol.targets.cpu import CpuMachine

    folder = CpuMachine.default().cache_path().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check(name, Outcome.WARN, f"{folder}: {error}", "Set XDG_CACHE_HOME to a folder that can be written.")
    return Check(name, Outcome.OK, str(folder))


def _check_calibration(name: str) -> Check:
    from metol.targets.cpu import CpuMachine

    machine = CpuMachine.detect()
    path = machine.cache_path()
    if machine.is_calibrated:
        return Check(name, Outcome.OK, str(path))
    if machine.notes:
        return Check(name, Outcome.WARN, machine.notes[0], "Run `metol calibrate`.")
    others = sorted(path.parent.glob("cpu-*.json")) if path.parent.is_dir() else []
    what = "made for other numbers of threads, or another Halide or machine" if others else "none"
    return Check(
        name, Outcome.WARN, f"{what}; rates typical of such a CPU are used", "Run `metol calibrate`, a minute."
    )


def _check_plugin(name: str) -> Check:
    plugin = name.split()[-1]
    done = _run_child(
        f"import halide as hl; hl.load_plugin(hl.install_dir() + '/lib64/libautoschedule_{plugin}.so'); print('loads')"
    )
    if not done.is_ok:
        return Check(name, Outcome.WARN, done.text, "`metol bench` cannot compare with it; Metol itself does without.")
    return Check(name, Outcome.OK, done.text)


def _check_device(name: str) -> Check:
    feature = name.lower()
    done = _run_child(_DEVICE.format(feature=feature))
    if not done.is_ok:
        return Check(name, Outcome.WARN, done.text, "Needed to run schedules for GPUs alone.")
    return Check(name, Outcome.OK, done.text)


def _check_ptxas(name: str) -> Check:
    from metol.measure import find_ptxas

    try:
        return Check(name, Outcome.OK, str(find_ptxas()))
    except MissingToolError:
        advice = "`pip install .[cuda]` in Metol's checkout, to verify schedules for CUDA without a GPU."
        return Check(name, Outcome.WARN, "neither installed nor on the path", advice)


@dataclass(frozen=True, slots=True)
class _Run:
    is_ok: bool
    text: str
    """What it printed, or how it ended and the last line it wrote."""


def _run_child(code: str) -> _Run:
    """Run Python code in a fresh process."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=_CHILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _Run(False, f"no answer within {_CHILD_SECONDS:g} s")
    if done.returncode == 0:
        return _Run(True, done.stdout.strip())
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return _Run(False, lines[-1] if lines else how)


_PIPELINE = """
import halide as hl
x, y = hl.Var("x"), hl.Var("y")
source, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
result[x, y] = source[x, y] + source[x, y + 1]
source.set_estimates([(0, 64), (0, 65)])
result.set_estimates([(0, 64), (0, 64)])
"""

_EXTRACT = _PIPELINE + "from metol.pipeline import extract\nassert len(extract(result).funcs) == 2\n"

_JIT = (
    _PIPELINE
    + """
import metol
metol.autoschedule(result, options=metol.SearchOptions(strategy="greedy"), threads=1, verify=True)
"""
)

# Halide's runtime for a device takes the process along where there is none; so does a driver that is half installed.
_DEVICE = """
import ctypes
names = {{"opencl": ["libOpenCL.so.1", "libOpenCL.so"], "cuda": ["libcuda.so.1", "libcuda.so"]}}["{feature}"]
library = None
for name in names:
    try:
        library = ctypes.CDLL(name)
        break
    except OSError:
        pass
if library is None:
    raise SystemExit("no " + names[0])
count = ctypes.c_uint(0)
if "{feature}" == "opencl":
    status = library.clGetPlatformIDs(0, None, ctypes.byref(count))
    what = "platforms"
else:
    status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    what = "devices"
if status != 0 or count.value == 0:
    raise SystemExit(name + " finds no " + what)
print(name + ": " + what + ": " + str(count.value))
"""

_THREADS = "threads"

_CHECKS: tuple[tuple[str, Callable[[str], Check]], ...] = (
    ("Python", _check_python),
    ("Halide", _check_halide),
    ("Metol's core", _check_core),
    ("compile and run", _check_jit),
    (_THREADS, _check_threads),
    ("memory", _check_memory),
    ("cache folder", _check_cache),
    ("calibration", _check_calibration),
    ("autoscheduler mullapudi2016", _check_plugin),
    ("autoscheduler adams2019", _check_plugin),
    ("autoscheduler li2018", _check_plugin),
    ("autoscheduler anderson2021", _check_plugin),
    ("OpenCL", _check_device),
    ("CUDA", _check_device),
    ("ptxas", _check_ptxas),
)

# Without these, the other checks would all fail for the same reason.
_NEEDED_BY_ALL = ("Halide", "Metol's core")
