"""The command line in a process of its own, as a user starts it."""

import subprocess
import sys
from pathlib import Path

__all__ = ["metol"]


def metol(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``metol WORDS`` to its end, whatever its exit status."""
    command = [sys.executable, "-m", "metol.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
