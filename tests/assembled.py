"""What the compiler makes of a pipeline: its assembly, and the loops in it that contain no other."""

import re
from pathlib import Path

import halide as hl
from small_pipelines import BARE_TARGET

__all__ = ["assembly_of", "inner_loops"]


def assembly_of(output: hl.Func, folder: Path) -> str:
    """Return the code of a pipeline for AVX2, without checks and queries."""
    path = folder / "pipeline.s"
    target = hl.Target(f"{BARE_TARGET}-no_asserts-no_bounds_query")
    output.compile_to_assembly(str(path), output.infer_arguments(), "pipeline", target)
    return path.read_text()


def inner_loops(assembly: str) -> list[str]:
    """Return the bodies of the loops that contain no other."""
    return [body for _, body in re.findall(r"\n(\.LBB\d+_\d+):((?:(?!\n\.LBB)[\s\S])*?)\n\tj\w+\t\1\n", assembly)]
