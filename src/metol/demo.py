"""The demonstration: Harris corners on a generated photograph, scheduled by Metol and by Halide's own autoschedulers.

In: where to write the picture. Out: a measurement for each scheduler, and the picture that Metol's schedule computes.
"""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metol.destinations import write_bytes
from metol.measure import LocalRunner, Measurement, PipelineSource, Progress, RunOptions, Scheduler, SourceKind

__all__ = ["run_demo", "write_png"]

_APP = PipelineSource(SourceKind.APP, "harris")
_SCHEDULERS = ("metol", "adams2019", "mullapudi2016")

# Corners respond with a few thousandths of what the strongest one does; this share of the pixels is shown white.
_WHITE_SHARE = 0.002


def run_demo(image: Path, *, threads: int, progress: Progress | None = None) -> tuple[Measurement, ...]:
    """Measure the three schedulers, then compute the corners of the photograph once more and write them as a PNG."""
    runner = LocalRunner(RunOptions(threads=threads), progress)
    rows = runner.run(_APP, [Scheduler.parse(text) for text in _SCHEDULERS])
    response = np.maximum(_compute(threads), 0)
    white = float(np.quantile(response, 1 - _WHITE_SHARE)) or 1.0
    write_png(image, (255 * np.sqrt(np.minimum(response / white, 1))).astype(np.uint8))
    return rows


def _compute(threads: int) -> NDArray[np.float32]:
    """Schedule, compile and run in this process, as a user would."""
    import halide as hl

    import metol_apps

    app = metol_apps.get(_APP.location)
    pipeline = app.build()
    Scheduler(_SCHEDULERS[0]).apply(pipeline, hl.get_host_target(), threads)
    arguments = pipeline.infer_arguments()
    inputs, output = app.inputs(), app.empty_output()
    values = [inputs[argument.name] for argument in arguments]
    run = pipeline.compile_to_callable(arguments, hl.get_host_target())
    run(*(hl.Buffer(v) if isinstance(v, np.ndarray) else v for v in values), hl.Buffer(output))
    return output


def write_png(path: Path, gray: NDArray[np.uint8]) -> None:
    """Write an image `[y, x]` as a PNG of 8 bits (PNG specification, §5 and §11)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = gray.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    # Each row starts with the number of its filter; 0 is none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), gray], axis=1).tobytes()
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    write_bytes(path, b"\x89PNG\r\n\x1a\n" + chunks)
