"""The command line: in a process of its own, as a user starts it, or in this one, which saves half a second."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

__all__ = ["PIPELINES", "metol", "metol_process"]

PIPELINES = """
import halide as hl

def ramp():
    x, y = hl.Var("x"), hl.Var("y")
    result = hl.Func("ramp")
    result[x, y] = x + y
    result.set_estimates([(0, 640), (0, 480)])
    return result
"""


def metol_process(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``metol WORDS`` to its end, whatever its exit status."""
    command = [sys.executable, "-m", "metol.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def metol(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Do what `metol_process` does, without a process; a Generator of Halide's can be registered once only so."""
    from metol import cli

    stdout, stderr = io.StringIO(), io.StringIO()
    command = ["metol", *words]
    with (
        _working_in(cwd or Path.cwd()),
        mock.patch.object(sys, "argv", command),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            cli.main()
            code: object = 0
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(command, code, stdout.getvalue(), stderr.getvalue())


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    """Change to a folder and back, and forget the modules that were imported from it."""
    before, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and Path(file).is_relative_to(folder) and not Path(file).is_relative_to(before):
                del sys.modules[name]
