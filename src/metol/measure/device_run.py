"""Running a scheduled pipeline on a GPU again and again, with its inputs and outputs left on the device.

In: a pipeline that carries its schedule, its target and a case. Out: a function that runs it, and one that waits for
the device. A Halide Callable copies inputs to the device and outputs back at every call from Python, so that what it
takes says little of a GPU; `Pipeline.realize` copies neither. It wants its arguments bound to parameters, which a
pipeline hands out to nobody, so that a copy with parameters of our own is run.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metol.measure.case import Array, Case, allocate_output
from metol.measure.compiled import buffer_of
from metol.measure.serialized import load_bound_pipeline, save_pipeline

__all__ = ["DeviceRun", "inputs_of"]


def inputs_of(case: Case) -> dict[str, Any]:
    """Return a number or an `hl.Buffer` for each input by its name; a buffer is on the device after the first run."""
    return {item.name: item.number if item.array is None else buffer_of(item.array, item.mins) for item in case.inputs}


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """A pipeline with everything that it reads and writes."""

    pipeline: Any
    """An `hl.Pipeline` whose parameters are bound."""
    target: Any
    """An `hl.Target` with a GPU."""
    outputs: tuple[Any, ...]
    """An `hl.Buffer` each, on the device after the first run."""
    arrays: tuple[Array, ...]
    """Their memory on the host, which holds the results after `fetch`."""

    @staticmethod
    def bind(pipeline: Any, target: Any, case: Case, inputs: Mapping[str, Any] | None = None) -> "DeviceRun":
        """Make a copy of a scheduled pipeline that runs on a case.

        Args:
            pipeline: An `hl.Pipeline` that carries its schedule.
            target: An `hl.Target` with a GPU.
            case: What it runs on.
            inputs: What `inputs_of` returned for the case, so that several share what they read; outputs they must not
                share, for what one leaves there the next would be thought to have computed.
        """
        values = inputs_of(case) if inputs is None else dict(inputs)
        arrays = tuple(allocate_output(shape, is_aligned=True)[0] for shape in case.outputs)
        outputs = tuple(buffer_of(array, shape.mins) for array, shape in zip(arrays, case.outputs, strict=True))
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            file = Path(folder) / "scheduled.hlpipe"
            save_pipeline(pipeline, file)
            return DeviceRun(load_bound_pipeline(file, values), target, outputs, arrays)

    def run(self) -> None:
        """Launch the kernels; what the host does not need, nobody waits for."""
        self.pipeline.realize(self.outputs[0] if len(self.outputs) == 1 else list(self.outputs), self.target)

    def wait(self) -> None:
        """Wait until the device has nothing left to do."""
        for output in self.outputs:
            output.device_sync()

    def fetch(self) -> Sequence[Array]:
        """Wait, copy the outputs to the host, and return them."""
        for output in self.outputs:
            output.copy_to_host()
        return self.arrays
