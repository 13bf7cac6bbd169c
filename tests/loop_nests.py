"""The loop nest of a pipeline, as Halide prints it."""

import halide as hl
import pytest

__all__ = ["loops"]


def loops(pipeline: hl.Pipeline, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    pipeline.print_loop_nest()
    return capfd.readouterr().err
