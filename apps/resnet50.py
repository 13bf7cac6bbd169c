"""ResNet-50 in parts, each a pipeline of its own: the stem, the bottlenecks of each stage, the head (He et al. 2016).

Activations are `[y, x, channel]` of one image of 224x224 pixels, filters `[channel in, y, x, channel out]`; the scale
of each batch normalisation is taken to be in the filters, and its shift in the biases. A bottleneck narrows the
channels by 1x1, convolves them by 3x3, widens them by 1x1 and adds what it began with: as it was, or through 1x1 where
the size or the channels change, as in the first of each stage. The convolution by 3x3 is the one with the stride.
Filters are random.
"""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import halide as hl
import numpy as np

from .app import App, Array, Inputs, Shape, Tolerance

__all__ = ["PARTS", "SEQUENCE", "Bottleneck"]

_Readable: TypeAlias = "hl.Func | hl.ImageParam"

_IMAGE = 224
_COLOURS = 3
_CLASSES = 1000
_STEM_CHANNELS = 64
_STEM_TAPS = 7
_POOL = 3
_WIDENING = 4
_LAST_SIZE = 7


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """One kind of bottleneck."""

    name: str
    """Name of its app."""
    size: int
    """Width and height that leave."""
    channels_in: int
    """Channels that enter."""
    middle: int
    """Channels of the convolution by 3x3; four times as many leave."""
    stride: int
    """Pixels that enter for each that leaves, along each side."""

    @property
    def channels_out(self) -> int:
        """Channels that leave."""
        return _WIDENING * self.middle

    @property
    def is_first(self) -> bool:
        """Whether what it began with goes through 1x1, for its size or its channels change."""
        return self.channels_in != self.channels_out


def _bottlenecks() -> tuple[Bottleneck, ...]:
    found = []
    channels, size = _STEM_CHANNELS, _IMAGE // 4
    for stage, middle in enumerate((64, 128, 256, 512), 2):
        stride = 1 if stage == 2 else 2
        size //= stride
        found.append(Bottleneck(f"resnet50_conv{stage}_first", size, channels, middle, stride))
        channels = found[-1].channels_out
        found.append(Bottleneck(f"resnet50_conv{stage}", size, channels, middle, 1))
    return tuple(found)


_BOTTLENECKS = _bottlenecks()
# Bottlenecks of each stage after its first.
_REPEATS = (2, 3, 5, 2)


def _filter(name: str, taps: int, channels_in: int, channels_out: int) -> tuple[hl.ImageParam, hl.ImageParam]:
    weights, bias = hl.ImageParam(hl.Float(32), 4, f"filter_{name}"), hl.ImageParam(hl.Float(32), 1, f"bias_{name}")
    weights.set_estimates([(0, channels_out), (0, taps), (0, taps), (0, channels_in)])
    bias.set_estimates([(0, channels_out)])
    return weights, bias


def _convolved(
    source: "_Readable", name: str, taps: int, channels_in: int, channels_out: int, stride: int = 1
) -> hl.Func:
    """Return `[c, x, y]`, not rectified; a pixel of the result lies on the middle of its taps."""
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    weights, bias = _filter(name, taps, channels_in, channels_out)
    tap = hl.RDom([(0, channels_in), (0, taps), (0, taps)], f"tap_{name}")
    half = taps // 2
    convolved = hl.Func(f"convolved_{name}")
    convolved[c, x, y] = bias[c]
    column, row = stride * x + tap.y - half, stride * y + tap.z - half
    convolved[c, x, y] += weights[c, tap.y, tap.z, tap.x] * source[tap.x, column, row]
    return convolved


def _rectified(source: hl.Func, name: str) -> hl.Func:
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    rectified = hl.Func(name)
    rectified[c, x, y] = hl.max(source[c, x, y], 0.0)
    return rectified


def _with_zeros(source: "_Readable", name: str, width: hl.Expr, height: hl.Expr) -> hl.Func:
    """Return the same with zeros beyond this size."""
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    padded = hl.Func(name)
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    column, row = (hl.clamp(hl.likely(v), 0, size - 1) for v, size in ((x, width), (y, height)))
    padded[c, x, y] = hl.select(is_inside, source[c, column, row], 0.0)
    return padded


def _build_stem(name: str) -> hl.Pipeline:
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    bounded = _with_zeros(image, "bounded", image.dim(1).extent(), image.dim(2).extent())
    wide = _rectified(_convolved(bounded, "stem", _STEM_TAPS, _COLOURS, _STEM_CHANNELS, stride=2), "rectified")
    # Nothing is less than what is rectified, so that zeros beyond the edge change no maximum.
    halves = ((image.dim(dim).extent() + 1) // 2 for dim in (1, 2))
    inner = _with_zeros(wide, "inner", *halves)
    window = hl.RDom([(0, _POOL), (0, _POOL)], "window")
    output = hl.Func(name)
    pooled = hl.Func("pooled")
    pooled[c, x, y] = 0.0
    pooled[c, x, y] = hl.max(pooled[c, x, y], inner[c, 2 * x + window.x - 1, 2 * y + window.y - 1])
    output[c, x, y] = pooled[c, x, y]
    image.set_estimates([(0, _COLOURS), (0, _IMAGE), (0, _IMAGE)])
    output.set_estimates([(0, _STEM_CHANNELS), (0, _IMAGE // 4), (0, _IMAGE // 4)])
    return hl.Pipeline(output)


def _build_bottleneck(kind: Bottleneck) -> hl.Pipeline:
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    width, height = image.dim(1).extent(), image.dim(2).extent()
    narrow = _rectified(_convolved(image, "narrow", 1, kind.channels_in, kind.middle), "rectified_narrow")
    inner = _with_zeros(narrow, "inner", width, height)
    middle = _convolved(inner, "middle", _POOL, kind.middle, kind.middle, kind.stride)
    wide = _convolved(_rectified(middle, "rectified_middle"), "wide", 1, kind.middle, kind.channels_out)
    start = _convolved(image, "start", 1, kind.channels_in, kind.channels_out, kind.stride) if kind.is_first else image
    output = hl.Func(kind.name)
    output[c, x, y] = hl.max(wide[c, x, y] + start[c, x, y], 0.0)
    size = kind.size * kind.stride
    image.set_estimates([(0, kind.channels_in), (0, size), (0, size)])
    output.set_estimates([(0, kind.channels_out), (0, kind.size), (0, kind.size)])
    return hl.Pipeline(output)


def _build_head(name: str, channels: int) -> hl.Pipeline:
    c, n = hl.Var("c"), hl.Var("n")
    image = hl.ImageParam(hl.Float(32), 4, "input")
    weights, bias = hl.ImageParam(hl.Float(32), 2, "filter"), hl.ImageParam(hl.Float(32), 1, "bias")
    pixel = hl.RDom([(0, _LAST_SIZE), (0, _LAST_SIZE)], "pixel")
    channel = hl.RDom([(0, channels)], "channel")
    total, mean, output, classes = hl.Func("total"), hl.Func("mean"), hl.Func(name), hl.Func("classes")
    total[c, n] = hl.f32(0)
    total[c, n] += image[c, pixel.x, pixel.y, n]
    mean[c, n] = total[c, n] * hl.f32(1 / _LAST_SIZE**2)
    classes[c, n] = bias[c]
    classes[c, n] += weights[c, channel.x] * mean[channel.x, n]
    output[c, n] = classes[c, n]
    image.set_estimates([(0, channels), (0, _LAST_SIZE), (0, _LAST_SIZE), (0, 1)])
    weights.set_estimates([(0, _CLASSES), (0, channels)])
    bias.set_estimates([(0, _CLASSES)])
    output.set_estimates([(0, _CLASSES), (0, 1)])
    return hl.Pipeline(output)


def _random_filter(rng: np.random.Generator, name: str, taps: int, channels_in: int, channels_out: int) -> Inputs:
    """Filters as large as keep the size of activations (He et al. 2015)."""
    scale = np.sqrt(2 / (channels_in * taps * taps))
    shape = (channels_in, taps, taps, channels_out)
    return {
        f"filter_{name}": rng.normal(0, scale, shape).astype(np.float32),
        f"bias_{name}": rng.uniform(-0.1, 0.1, channels_out).astype(np.float32),
    }


def _stem_inputs(output_shape: Shape, seed: int) -> Inputs:
    height, width, channels = output_shape
    rng = np.random.default_rng(seed)
    image = rng.normal(0, 1, (4 * height, 4 * width, _COLOURS)).astype(np.float32)
    return {"input": image, **_random_filter(rng, "stem", _STEM_TAPS, _COLOURS, channels)}


def _bottleneck_inputs(kind: Bottleneck, output_shape: Shape, seed: int) -> Inputs:
    height, width, channels = output_shape
    rng = np.random.default_rng(seed)
    shape = (height * kind.stride, width * kind.stride, kind.channels_in)
    inputs = {"input": np.maximum(rng.normal(0, 1, shape), 0).astype(np.float32)}
    inputs |= _random_filter(rng, "narrow", 1, kind.channels_in, kind.middle)
    inputs |= _random_filter(rng, "middle", _POOL, kind.middle, kind.middle)
    inputs |= _random_filter(rng, "wide", 1, kind.middle, channels)
    if kind.is_first:
        inputs |= _random_filter(rng, "start", 1, kind.channels_in, channels)
    return inputs


def _head_inputs(channels: int, output_shape: Shape, seed: int) -> Inputs:
    batch, classes = output_shape
    rng = np.random.default_rng(seed)
    return {
        "input": np.maximum(rng.normal(0, 1, (batch, _LAST_SIZE, _LAST_SIZE, channels)), 0).astype(np.float32),
        "filter": rng.normal(0, 1 / np.sqrt(channels), (channels, classes)).astype(np.float32),
        "bias": rng.uniform(-0.1, 0.1, classes).astype(np.float32),
    }


def _reference_convolved(image: Array, inputs: Inputs, name: str, stride: int = 1) -> Array:
    weights, bias = inputs[f"filter_{name}"].astype(np.float64), inputs[f"bias_{name}"]
    half = weights.shape[1] // 2
    padded = np.pad(image, [(half, half), (half, half), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[1:3], axis=(0, 1))[::stride, ::stride]
    convolved: Array = np.tensordot(windows, weights, axes=((2, 3, 4), (0, 1, 2))) + bias
    return convolved


def _reference_stem(inputs: Inputs) -> Array:
    wide = np.maximum(_reference_convolved(inputs["input"].astype(np.float64), inputs, "stem", 2), 0)
    padded = np.pad(wide, [(1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (_POOL, _POOL), axis=(0, 1))[::2, ::2]
    pooled: Array = windows.max(axis=(3, 4))
    return pooled.astype(np.float32)


def _reference_bottleneck(stride: int, inputs: Inputs) -> Array:
    image = inputs["input"].astype(np.float64)
    narrow = np.maximum(_reference_convolved(image, inputs, "narrow"), 0)
    middle = np.maximum(_reference_convolved(narrow, inputs, "middle", stride), 0)
    wide = _reference_convolved(middle, inputs, "wide")
    if "filter_start" in inputs:
        image = _reference_convolved(image, inputs, "start", stride)
    total: Array = np.maximum(wide + image[:, :, : wide.shape[2]], 0)
    return total.astype(np.float32)


def _reference_head(inputs: Inputs) -> Array:
    mean = inputs["input"].astype(np.float64).mean(axis=(1, 2))
    classes: Array = mean @ inputs["filter"] + inputs["bias"]
    return classes.astype(np.float32)


# Sums of up to 4608 terms of both signs, whose size is near 1.
_TOLERANCE = Tolerance(absolute=1e-3, relative=1e-3)


def _parts() -> dict[str, App]:
    size = _IMAGE // 4
    parts = [
        App(
            name="resnet50_stem",
            title="ResNet-50, stem",
            description="7x7 convolution with stride 2, ReLU and the maximum of 3x3 with stride 2, float32.",
            build=partial(_build_stem, "resnet50_stem"),
            output_shape=(size, size, _STEM_CHANNELS),
            small_output_shape=(5, 7, 19),
            output_type=np.dtype(np.float32),
            make_inputs=_stem_inputs,
            reference=_reference_stem,
            tolerance=_TOLERANCE,
        )
    ]
    for kind in _BOTTLENECKS:
        parts.append(
            App(
                name=kind.name,
                title=f"ResNet-50, {'first ' if kind.is_first else ''}bottleneck of {kind.size}x{kind.size}",
                description=f"Convolutions of {kind.channels_in} channels to {kind.middle}, by 3x3, and to "
                f"{kind.channels_out}, added to what enters, float32.",
                build=partial(_build_bottleneck, kind),
                output_shape=(kind.size, kind.size, kind.channels_out),
                small_output_shape=(3, 5, 67),
                output_type=np.dtype(np.float32),
                make_inputs=partial(_bottleneck_inputs, kind),
                reference=partial(_reference_bottleneck, kind.stride),
                tolerance=_TOLERANCE,
            )
        )
    channels = _BOTTLENECKS[-1].channels_out
    parts.append(
        App(
            name="resnet50_head",
            title="ResNet-50, head",
            description=f"Mean of {_LAST_SIZE}x{_LAST_SIZE}, {channels} channels to {_CLASSES} classes, float32.",
            build=partial(_build_head, "resnet50_head", channels),
            output_shape=(1, _CLASSES),
            small_output_shape=(3, 67),
            output_type=np.dtype(np.float32),
            make_inputs=partial(_head_inputs, channels),
            reference=_reference_head,
            tolerance=_TOLERANCE,
        )
    )
    return {part.name: part for part in parts}


PARTS = _parts()
"""By name."""


def _sequence() -> tuple[str, ...]:
    names = ["resnet50_stem"]
    for stage, repeats in enumerate(_REPEATS):
        first, rest = _BOTTLENECKS[2 * stage : 2 * stage + 2]
        names += [first.name, *[rest.name] * repeats]
    return (*names, "resnet50_head")


SEQUENCE = _sequence()
"""Names of the parts in the order in which the network runs them."""
