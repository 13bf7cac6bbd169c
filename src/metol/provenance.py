"""Where numbers come from: the machine, the versions and the commit, as they stand beside every result.

In: nothing but the process and the machine it runs on. Out: a `Provenance`, plain text and numbers.
"""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Provenance", "metol_version"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a reader must know to judge or repeat a measurement."""

    cpu: str
    """The processor's model."""
    cores: int
    """Cores that this process may use."""
    cache_bytes: tuple[int, ...]
    """First level, data; second level; third level, shared."""
    memory_gib: float
    """Physical memory."""
    target: str
    """Halide's name for the host."""
    system: str
    """The kernel."""
    versions: dict[str, str]
    """Metol, Halide, NumPy and Python."""
    commit: str
    """Commit of this checkout, with ``-dirty`` where it has changes; empty where there is none."""

    @staticmethod
    def collect() -> "Provenance":
        """Look at this machine."""
        import halide as hl

        from metol.targets.cpu import CpuMachine

        machine = CpuMachine.default()
        packages = {name: importlib.metadata.version(name) for name in ("halide", "numpy")}
        return Provenance(
            cpu=machine.name,
            cores=machine.cores,
            cache_bytes=(machine.l1_bytes, machine.l2_bytes, machine.l3_bytes),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            target=str(hl.get_host_target()),
            system=f"{platform.system()} {platform.release()}",
            versions={"metol": metol_version(), **packages, "python": platform.python_version()},
            commit=_commit(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for a result file."""
        return asdict(self)

    @property
    def text(self) -> str:
        """One line for a person."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        commit = f", commit {self.commit}" if self.commit else ""
        return f"{self.cpu}, {self.cores} cores, {self.target}; {versions}{commit}"


def metol_version() -> str:
    """Return the version of the installed package, or ``unknown`` when it runs from a source folder."""
    try:
        return importlib.metadata.version("metol")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _commit() -> str:
    """Return the commit of the checkout that this file lies in."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    command += ["--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
