"""ResNet-50 end to end: its parts, each scheduled on its own, run one after the other, beside PyTorch.

In: schedulers. Out: points of each, and of PyTorch: the time of one image through the whole network, and through each
kind of part. All have the same random weights, and their results are compared. Source: Adams et al. 2019, §6.1.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import halide as hl
import numpy as np
from numpy.typing import NDArray

from metol import autoschedule, load
from metol.errors import MetolError
from metol.experiments.drawing import COLOURS, draw_legend
from metol.experiments.experiment import Experiment, Outcome, Point, Setting, series_of
from metol.experiments.schedulers import RUN, SEARCH
from metol.measure import PipelineSource, Scheduler
from metol.text_table import TextTable, number_cell
from metol_apps.resnet50 import PARTS, SEQUENCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Network"]

Array = NDArray[np.float32]
_PYTORCH = "pytorch"
# Results differ by the order of sums of thousands of terms, layer after layer.
_TOLERANCE = 1e-2
_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of the network as machine code."""

    names: tuple[str, ...]
    """Of its inputs, in the order that the code takes them."""
    code: Any
    """A Halide Callable."""
    output_shape: tuple[int, ...]
    """In C order."""

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], Array]:
        """Return what runs it, and where its result goes."""
        output = np.zeros(self.output_shape, np.float32)
        buffers = [hl.Buffer(inputs[name]) for name in self.names]
        buffers.append(hl.Buffer(output))
        return lambda: self.code(*buffers), output


class _Compiled:
    """The whole network as one scheduler has it."""

    def __init__(self, scheduler: Scheduler, image: Array, weights: Sequence[dict[str, Array]], threads: int) -> None:
        self.search_seconds = 0.0
        parts = {name: self._compile(name, scheduler, threads) for name in PARTS}
        self._runs: list[tuple[str, Callable[[], object]]] = []
        entering = image
        for name, own in zip(SEQUENCE, weights, strict=True):
            rank = len(PARTS[name].inputs()["input"].shape)
            run, left = parts[name].bind({**own, "input": entering if entering.ndim == rank else entering[np.newaxis]})
            self._runs.append((name, run))
            entering = left
        self.result = entering

    def _compile(self, name: str, scheduler: Scheduler, threads: int) -> _Part:
        pipeline = PARTS[name].build()
        own = scheduler.of_pipeline(PipelineSource.parse(name))
        if own.name == "schedule":
            load(own.file).apply(pipeline)
        elif own.name == "metol" and not own.options:
            self.search_seconds += autoschedule(pipeline, threads=threads).search_seconds
        else:
            raise MetolError(f"`{scheduler}` schedules no networks; metol and schedule:FOLDER do.")
        arguments = pipeline.infer_arguments()
        names = tuple(argument.name for argument in arguments)
        code = pipeline.compile_to_callable(arguments, hl.get_host_target())
        return _Part(names, code, PARTS[name].output_shape)

    def __call__(self) -> None:
        for _, run in self._runs:
            run()

    def part_ms(self) -> dict[str, float]:
        """Milliseconds of each kind of part, once through the network."""
        total: dict[str, float] = {}
        for name, run in self._runs:
            started = time.perf_counter()
            run()
            total[name] = total.get(name, 0.0) + 1e3 * (time.perf_counter() - started)
        return total


class _Torch:
    """The same network in PyTorch, with its channels last in memory, as here."""

    def __init__(self, image: Array, weights: Sequence[dict[str, Array]], threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._torch = torch
        self._image = torch.from_numpy(image.transpose(2, 0, 1)[np.newaxis]).contiguous(
            memory_format=torch.channels_last
        )
        self._weights = [{name: self._tensor(name, value) for name, value in own.items()} for own in weights]
        self.result = np.zeros(0, np.float32)

    def _tensor(self, name: str, value: Array) -> Any:
        tensor = self._torch.from_numpy(value)
        if value.ndim != 4:
            return tensor
        # [channel in, y, x, channel out] to [channel out, channel in, y, x]
        return tensor.permute(3, 0, 1, 2).contiguous(memory_format=self._torch.channels_last)

    def __call__(self) -> None:
        with self._torch.inference_mode():
            value = self._image
            for name, own in zip(SEQUENCE, self._weights, strict=True):
                value = self._part(name, own, value)
            self.result = value.numpy()

    def _part(self, name: str, own: dict[str, Any], value: Any) -> Any:
        functional = self._torch.nn.functional
        if name == SEQUENCE[-1]:
            return value.mean(dim=(2, 3)) @ own["filter"] + own["bias"]

        def convolved(source: Any, layer: str, stride: int = 1) -> Any:
            taps = own[f"filter_{layer}"]
            return functional.conv2d(source, taps, own[f"bias_{layer}"], stride, taps.shape[2] // 2)

        if name == SEQUENCE[0]:
            return functional.max_pool2d(functional.relu(convolved(value, "stem", 2)), 3, 2, 1)
        inputs, output = PARTS[name].inputs()["input"].shape, PARTS[name].output_shape
        stride = inputs[0] // output[0]
        narrow = functional.relu(convolved(value, "narrow"))
        middle = functional.relu(convolved(narrow, "middle", stride))
        start = convolved(value, "start", stride) if "filter_start" in own else value
        return functional.relu(convolved(middle, "wide") + start)


class Network(Experiment):
    """One image through ResNet-50."""

    title = "ResNet-50: milliseconds of an image of 224x224"
    measurement = "network"

    def subjects(self, setting: Setting) -> Sequence[str]:
        """The one network."""
        return ("resnet50",)

    def depends_on(self, setting: Setting) -> str:
        """Which schedulers, too."""
        return setting.schedulers_text

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Compile all, compare what they compute, and time them in turn."""
        threads = setting.options.threads
        os.environ["HL_NUM_THREADS"] = str(threads)  # read when Halide first runs something in parallel
        image, weights = _inputs(setting.options.seed)
        setting.progress(f"{subject}: {_PYTORCH}")
        torch = _Torch(image, weights, threads)
        torch()
        contestants: dict[str, Any] = {}
        points: dict[str, Point] = {}
        for scheduler in setting.schedulers:
            setting.progress(f"{subject}: {scheduler}")
            try:
                compiled = _Compiled(scheduler, image, weights, threads)
            except MetolError as error:
                points[str(scheduler)] = Point(str(scheduler), {}, str(error))
                continue
            compiled()
            if (difference := _difference(compiled.result, torch.result)) > _TOLERANCE:
                points[str(scheduler)] = Point(str(scheduler), {}, f"wrong_result: {difference:.2g} off PyTorch's")
                continue
            contestants[str(scheduler)] = compiled
        contestants[_PYTORCH] = torch
        setting.progress(f"{subject}: timing")
        run_ms = _time_in_turn(contestants)
        for name, compiled in contestants.items():
            values = {RUN: run_ms[name]}
            if isinstance(compiled, _Compiled):
                values |= {SEARCH: compiled.search_seconds, **compiled.part_ms()}
            points[name] = Point(name, values)
        return tuple(points.values()), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the times, of the whole and of each kind of part."""
        series = series_of(outcomes)
        lines = []
        for one in outcomes:
            lines.append((one.subject, *(number_cell(one.value(name, RUN)) for name in series)))
            lines.append(("search (s)", *(number_cell(one.value(name, SEARCH)) for name in series)))
            for part in PARTS:
                times = SEQUENCE.count(part)
                lines.append((f"{part}, {times} times", *(number_cell(one.value(name, part)) for name in series)))
        return (TextTable(self.title, ("part", *series), tuple(lines)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the times of the parts on top of each other."""
        axis = figure.add_subplot()
        points = [point for one in outcomes for point in one.points if RUN in point.values]
        names = [point.series for point in points]
        bottoms = [0.0] * len(points)
        for place, part in enumerate(PARTS):
            heights = [point.values.get(part, 0.0) for point in points]
            axis.bar(range(len(points)), heights, bottom=bottoms, label=part, color=COLOURS[place % len(COLOURS)])
            bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
        whole = [0.0 if bottom else point.values[RUN] for bottom, point in zip(bottoms, points, strict=True)]
        axis.bar(range(len(points)), whole, color="gray", label="as a whole")
        axis.set_xticks(range(len(points)), names)
        axis.set(ylabel="milliseconds")
        draw_legend(axis, fontsize="x-small")


def _inputs(seed: int) -> tuple[Array, list[dict[str, Array]]]:
    """An image, and the weights of each part in its place."""
    weights = []
    image = PARTS[SEQUENCE[0]].inputs(seed=seed)["input"]
    for place, name in enumerate(SEQUENCE):
        own = dict(PARTS[name].inputs(seed=seed + place))
        del own["input"]
        if "filter_wide" in own:
            # Each bottleneck adds to what enters: without this, activations double with each of sixteen.
            own["filter_wide"] = own["filter_wide"] * np.float32(0.25)
        weights.append(own)
    return image, weights


def _difference(result: Array, expected: Array) -> float:
    return float(np.max(np.abs(result - expected)) / max(1e-30, float(np.max(np.abs(expected)))))


def _time_in_turn(contestants: dict[str, Callable[[], None]]) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(_ROUNDS):
        for name, run in contestants.items():
            run()  # whoever came before has had the caches
            started = time.perf_counter()
            run()
            samples[name].append(1e3 * (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in samples.items()}
