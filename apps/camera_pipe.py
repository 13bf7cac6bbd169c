"""A camera's raw image to a picture: hot pixels, demosaicking, colour correction, tone curve and sharpening.

A mosaic of 10 bits enters, larger than the output by sixteen pixels on each side: green, red in even rows, blue, green
in odd ones. Eight bits of three colours leave. Green is interpolated along the smoother direction, with the second
derivative of the colour in the middle (Hamilton and Adams 1997); red and blue follow it by their difference to green.
The matrix of colours lies between one for lamps and one for daylight, by the temperature of the light (as in the
pipeline of Adams et al. 2010, "The Frankencamera"); the curve is a table; what an unsharp mask finds is added at the
end. All but the table and the matrix is done in integers.
"""

import halide as hl
import numpy as np

from .app import SMALL_HEIGHT, SMALL_WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

# The five megapixels of a raw image that is 2592 pixels wide, without the margin.
_WIDTH = 2560
_HEIGHT = 1920
_MARGIN = 16
_COLOURS = 3
_WHITE = 1023
# Fixed point of the matrix.
_ONE = 256
# Kelvin of the light for which each matrix is made.
_LAMP, _DAYLIGHT = 3200.0, 7000.0
_SETTINGS = {
    "temperature": 3700.0,
    "gamma": 2.0,
    "contrast": 50.0,
    "black_level": 25,
    "white_level": _WHITE,
    "sharpen": 16,
}


def _average(a: hl.Expr, b: hl.Expr) -> hl.Expr:
    return (a + b + 1) >> 1


def _without_hot_pixels(raw: hl.ImageParam) -> hl.Func:
    """No pixel is brighter than the brightest, or darker than the darkest, of its neighbours of the same colour."""
    x, y = hl.Var("x"), hl.Var("y")
    near = [hl.i16(raw[x + _MARGIN + dx, y + _MARGIN + dy]) for dx, dy in ((-2, 0), (2, 0), (0, -2), (0, 2))]
    lowest = hl.min(hl.min(near[0], near[1]), hl.min(near[2], near[3]))
    highest = hl.max(hl.max(near[0], near[1]), hl.max(near[2], near[3]))
    cooled = hl.Func("cooled")
    cooled[x, y] = hl.clamp(hl.i16(raw[x + _MARGIN, y + _MARGIN]), lowest, highest)
    return cooled


def _green_at(name: str, own: hl.Func, across: tuple[hl.Expr, hl.Expr], along: tuple[hl.Expr, hl.Expr]) -> hl.Func:
    """Return green where the mosaic is of another colour: between its neighbours in the row, or in the column."""
    x, y = hl.Var("x"), hl.Var("y")
    middle = 2 * own[x, y]
    bends = (middle - own[x - 1, y] - own[x + 1, y], middle - own[x, y - 1] - own[x, y + 1])
    changes = [
        hl.absd(near[0], near[1]) + hl.cast(hl.UInt(16), hl.abs(bend))
        for near, bend in zip((across, along), bends, strict=True)
    ]
    guesses = [_average(*near) + (bend >> 2) for near, bend in zip((across, along), bends, strict=True)]
    green = hl.Func(name)
    green[x, y] = hl.select(changes[0] < changes[1], guesses[0], guesses[1])
    return green


def _demosaiced(mosaic: hl.Func) -> hl.Func:
    """Return `[x, y, c]` from the four colours of each 2x2 pixels."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    parts = {}
    for name, dx, dy in (("green_by_red", 0, 0), ("red", 1, 0), ("blue", 0, 1), ("green_by_blue", 1, 1)):
        parts[name] = hl.Func(name)
        parts[name][x, y] = mosaic[2 * x + dx, 2 * y + dy]
    by_red, red, blue, by_blue = parts.values()
    green_at_red = _green_at("green_at_red", red, (by_red[x, y], by_red[x + 1, y]), (by_blue[x, y - 1], by_blue[x, y]))
    green_at_blue = _green_at(
        "green_at_blue", blue, (by_blue[x - 1, y], by_blue[x, y]), (by_red[x, y], by_red[x, y + 1])
    )
    # How much more red or blue there is than green, where the mosaic has it.
    redder, bluer = hl.Func("redder"), hl.Func("bluer")
    redder[x, y] = red[x, y] - green_at_red[x, y]
    bluer[x, y] = blue[x, y] - green_at_blue[x, y]

    def diagonal(name: str, more: hl.Func, green: hl.Func, dx: int, dy: int) -> hl.Func:
        """The other colour of the two, from its four nearest pixels along the smoother diagonal."""
        falling = more[x, y], more[x + dx, y + dy]
        rising = more[x + dx, y], more[x, y + dy]
        is_falling = hl.absd(*falling) < hl.absd(*rising)
        found = hl.Func(name)
        found[x, y] = green[x, y] + hl.select(is_falling, _average(*falling), _average(*rising))
        return found

    red_at_blue = diagonal("red_at_blue", redder, green_at_blue, -1, 1)
    blue_at_red = diagonal("blue_at_red", bluer, green_at_red, 1, -1)
    at_green = {name: hl.Func(name) for name in ("red_by_red", "blue_by_red", "red_by_blue", "blue_by_blue")}
    at_green["red_by_red"][x, y] = by_red[x, y] + _average(redder[x - 1, y], redder[x, y])
    at_green["blue_by_red"][x, y] = by_red[x, y] + _average(bluer[x, y - 1], bluer[x, y])
    at_green["red_by_blue"][x, y] = by_blue[x, y] + _average(redder[x, y], redder[x, y + 1])
    at_green["blue_by_blue"][x, y] = by_blue[x, y] + _average(bluer[x, y], bluer[x + 1, y])

    # [colour][row of the four][column of the four]
    grids = (
        ((at_green["red_by_red"], red), (red_at_blue, at_green["red_by_blue"])),
        ((by_red, green_at_red), (green_at_blue, by_blue)),
        ((at_green["blue_by_red"], blue_at_red), (blue, at_green["blue_by_blue"])),
    )
    demosaiced = hl.Func("demosaiced")
    is_even_row, is_even_column = y % 2 == 0, x % 2 == 0
    rows = [[hl.select(is_even_column, *(part[x // 2, y // 2] for part in row)) for row in grid] for grid in grids]
    demosaiced[x, y, c] = hl.mux(c, [hl.select(is_even_row, even, odd) for even, odd in rows])
    return demosaiced


def _corrected(source: hl.Func, settings: dict[str, hl.Param]) -> hl.Func:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    lamp, daylight = hl.ImageParam(hl.Float(32), 2, "matrix_lamp"), hl.ImageParam(hl.Float(32), 2, "matrix_daylight")
    for matrix_of in (lamp, daylight):
        matrix_of.set_estimates([(0, _COLOURS + 1), (0, _COLOURS)])
    # Light changes evenly with the inverse of its temperature.
    share = (1 / settings["temperature"] - hl.f32(1 / _DAYLIGHT)) * hl.f32(1 / (1 / _LAMP - 1 / _DAYLIGHT))
    matrix = hl.Func("matrix")
    matrix[x, y] = hl.i16(hl.round((lamp[x, y] * share + daylight[x, y] * (1 - share)) * _ONE))
    corrected = hl.Func("corrected")
    total = sum(hl.i32(matrix[colour, c]) * hl.i32(source[x, y, colour]) for colour in range(_COLOURS))
    corrected[x, y, c] = hl.i16(hl.clamp((total + hl.i32(matrix[_COLOURS, c])) // _ONE, 0, _WHITE))
    return corrected


def _curve(settings: dict[str, hl.Param]) -> hl.Func:
    """Return `[level]`: eight bits for each of the ten-bit levels."""
    level = hl.Var("level")
    black, white = (hl.f32(settings[name]) for name in ("black_level", "white_level"))
    linear = hl.clamp((level - black) / (white - black), 0.0, 1.0)
    brightened = hl.pow(linear, 1 / settings["gamma"])
    # Two halves of a parabola, steeper in the middle the more contrast there is.
    power = hl.pow(2.0, settings["contrast"] / 100)
    bent = hl.select(
        brightened > 0.5,
        1 - hl.pow(2 * (1 - brightened), power) / 2,
        hl.pow(2 * brightened, power) / 2,
    )
    curve = hl.Func("curve")
    curve[level] = hl.u8(hl.clamp(bent * 255 + 0.5, 0.0, 255.0))
    return curve


def _sharpened(source: hl.Func, strength: hl.Param) -> hl.Func:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    blur_y, blurred = hl.Func("blur_y"), hl.Func("blurred")
    blur_y[x, y, c] = hl.u16(source[x, y - 1, c]) + 2 * hl.u16(source[x, y, c]) + hl.u16(source[x, y + 1, c])
    blurred[x, y, c] = (blur_y[x - 1, y, c] + 2 * blur_y[x, y, c] + blur_y[x + 1, y, c] + 8) >> 4
    output = hl.Func("camera_pipe")
    mask = hl.i16(source[x, y, c]) - hl.i16(blurred[x, y, c])
    sharp = hl.i16(source[x, y, c]) + ((mask * hl.i16(strength)) >> 5)
    output[x, y, c] = hl.u8(hl.clamp(sharp, 0, 255))
    return output


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    raw = hl.ImageParam(hl.UInt(16), 2, "input")
    settings = {}
    for name, value in _SETTINGS.items():
        kind = hl.Float(32) if isinstance(value, float) else hl.Int(32)
        settings[name] = hl.Param(kind, name, value)
        settings[name].set_estimate(value)
    corrected = _corrected(_demosaiced(_without_hot_pixels(raw)), settings)
    curve = _curve(settings)
    curved = hl.Func("curved")
    curved[x, y, c] = curve[hl.i32(corrected[x, y, c])]
    output = _sharpened(curved, settings["sharpen"])

    raw.set_estimates([(0, _WIDTH + 2 * _MARGIN), (0, _HEIGHT + 2 * _MARGIN)])
    output.set_estimates([(0, _WIDTH), (0, _HEIGHT), (0, _COLOURS)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    _, height, width = output_shape
    rng = np.random.default_rng(seed)
    image = photograph(height + 2 * _MARGIN, width + 2 * _MARGIN, seed=seed)
    raw = np.rint(900 * image + _SETTINGS["black_level"]).astype(np.uint16)
    mosaic = np.empty(raw.shape[1:], np.uint16)
    for dy, row in enumerate(((1, 0), (2, 1))):
        for dx, colour in enumerate(row):
            mosaic[dy::2, dx::2] = raw[colour, dy::2, dx::2]
    mosaic[rng.uniform(size=mosaic.shape) < 1e-3] = _WHITE  # hot pixels
    lamp = [[1.60, -0.23, -0.35, -20.0], [-0.24, 1.17, 0.12, -26.0], [0.01, -0.61, 1.67, -6.5]]
    daylight = [[2.29, -0.97, -0.05, -16.0], [-0.22, 1.47, -0.25, -24.0], [0.07, -0.55, 1.43, -7.0]]
    matrices = {"matrix_lamp": lamp, "matrix_daylight": daylight}
    # No two cameras are the same.
    own = {
        name: (np.array(m) * rng.uniform(0.98, 1.02, (_COLOURS, _COLOURS + 1))).astype(np.float32)
        for name, m in matrices.items()
    }
    return {"input": mosaic, **own, **_SETTINGS}


def _shifted(image: Array, dx: int, dy: int) -> Array:
    """Return `image[y + dy, x + dx]`, wrapped around: only the margin sees that."""
    return np.roll(image, (-dy, -dx), axis=(0, 1))


def _reference_mean(a: Array, b: Array) -> Array:
    mean: Array = (a + b + 1) >> 1
    return mean


def _reference_green(own: Array, across: tuple[Array, Array], along: tuple[Array, Array]) -> Array:
    guesses, changes = [], []
    for near, (dx, dy) in ((across, (1, 0)), (along, (0, 1))):
        bend = 2 * own - _shifted(own, -dx, -dy) - _shifted(own, dx, dy)
        guesses.append(_reference_mean(*near) + (bend >> 2))
        changes.append(np.abs(near[0] - near[1]) + np.abs(bend))
    green: Array = np.where(changes[0] < changes[1], *guesses)
    return green


def _reference_demosaiced(mosaic: Array) -> Array:
    """Return `[y, x, c]`, with the margin."""
    by_red, red, blue, by_blue = (mosaic[dy::2, dx::2] for dy in (0, 1) for dx in (0, 1))
    green_at_red = _reference_green(red, (by_red, _shifted(by_red, 1, 0)), (_shifted(by_blue, 0, -1), by_blue))
    green_at_blue = _reference_green(blue, (_shifted(by_blue, -1, 0), by_blue), (by_red, _shifted(by_red, 0, 1)))
    redder, bluer = red - green_at_red, blue - green_at_blue

    def diagonal(more: Array, green: Array, dx: int, dy: int) -> Array:
        falling = more, _shifted(more, dx, dy)
        rising = _shifted(more, dx, 0), _shifted(more, 0, dy)
        is_falling = np.abs(falling[0] - falling[1]) < np.abs(rising[0] - rising[1])
        return green + np.where(is_falling, _reference_mean(*falling), _reference_mean(*rising))

    result = np.empty((*mosaic.shape, _COLOURS), mosaic.dtype)
    result[0::2, 0::2] = np.stack(
        [
            by_red + _reference_mean(_shifted(redder, -1, 0), redder),
            by_red,
            by_red + _reference_mean(_shifted(bluer, 0, -1), bluer),
        ],
        -1,
    )
    result[0::2, 1::2] = np.stack([red, green_at_red, diagonal(bluer, green_at_red, 1, -1)], -1)
    result[1::2, 0::2] = np.stack([diagonal(redder, green_at_blue, -1, 1), green_at_blue, blue], -1)
    result[1::2, 1::2] = np.stack(
        [
            by_blue + _reference_mean(redder, _shifted(redder, 0, 1)),
            by_blue,
            by_blue + _reference_mean(bluer, _shifted(bluer, 1, 0)),
        ],
        -1,
    )
    return result


def _reference_curve(inputs: Inputs) -> Array:
    level = np.arange(_WHITE + 1)
    black, white = inputs["black_level"], inputs["white_level"]
    brightened = np.clip((level - black) / (white - black), 0, 1) ** (1 / inputs["gamma"])
    power = 2 ** (inputs["contrast"] / 100)
    bent = np.where(brightened > 0.5, 1 - (2 * (1 - brightened)) ** power / 2, (2 * brightened) ** power / 2)
    curve: Array = np.clip(bent * 255 + 0.5, 0, 255).astype(np.uint8)
    return curve


def _reference(inputs: Inputs) -> Array:
    raw = inputs["input"].astype(np.int32)
    # The mosaic begins at an even pixel of the margin; an odd size is made even.
    mosaic = np.pad(raw, [(0, size % 2) for size in raw.shape], mode="edge")
    near = np.stack([_shifted(mosaic, dx, dy) for dx, dy in ((-2, 0), (2, 0), (0, -2), (0, 2))])
    colours = _reference_demosaiced(np.clip(mosaic, near.min(axis=0), near.max(axis=0)))
    share = (1 / inputs["temperature"] - 1 / _DAYLIGHT) / (1 / _LAMP - 1 / _DAYLIGHT)
    matrix = np.rint((inputs["matrix_lamp"] * share + inputs["matrix_daylight"] * (1 - share)) * _ONE).astype(np.int32)
    corrected = np.clip((colours @ matrix[:, :_COLOURS].T + matrix[:, _COLOURS]) // _ONE, 0, _WHITE)
    curved = _reference_curve(inputs)[corrected].astype(np.int32)
    blurred = curved
    for axis in (0, 1):
        blurred = np.roll(blurred, 1, axis) + 2 * blurred + np.roll(blurred, -1, axis)
    sharp = curved + (((curved - ((blurred + 8) >> 4)) * inputs["sharpen"]) >> 5)
    height, width = (size - 2 * _MARGIN for size in raw.shape)
    inner: Array = np.clip(sharp, 0, 255)[_MARGIN : _MARGIN + height, _MARGIN : _MARGIN + width]
    return np.ascontiguousarray(inner.transpose(2, 0, 1)).astype(np.uint8)


APP = App(
    name="camera_pipe",
    title="Camera pipeline",
    description="Raw mosaic of 10 bits to a picture: hot pixels, demosaicking, colours, curve, sharpening, uint8.",
    build=_build,
    output_shape=(_COLOURS, _HEIGHT, _WIDTH),
    small_output_shape=(_COLOURS, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.uint8),
    make_inputs=_inputs,
    reference=_reference,
    # An entry of the curve may be rounded the other way, which sharpening makes half as much larger.
    tolerance=Tolerance(absolute=2, relative=0),
)
