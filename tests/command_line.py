"""The command line in a process of its own, as a user starts it."""

import subprocess
import sys
from pathlib import Path

__all__ = ["PIPELINES", "metol"]

PIPELINES = """
import halide as hl

def ramp():
    x, y = hl.Var("x"), hl.Var("y")
    result = hl.Func("ramp")
    result[x, y] = x + y
    result.set_estimates([(0, 640), (0, 480)])
    return result
"""


def metol(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``metol WORDS`` to its end, whatever its exit status."""
    command = [sys.executable, "-m", "metol.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
