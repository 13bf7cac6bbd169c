"""What the tests of `measure` share: a copy of the planted pipelines, and options that measure for moments only."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS

from metol.measure import PipelineSource, RunOptions


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[str], PipelineSource]:
    """Give a function from a builder's name to its source, in a file that no other test has run."""
    file = shutil.copy(Path(__file__).with_name("planted.py"), tmp_path)
    return lambda function: PipelineSource.parse(f"{file}:{function}")


@pytest.fixture
def brief_options() -> RunOptions:
    """Time for moments, and wait for a minute at most."""
    return BRIEF_OPTIONS
