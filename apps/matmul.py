"""Matrix multiplication, 1536 x 1536 x 1536, in float32 and, as a variant, in float64.

Two matrices in row-major order enter, `A[m, k]` and `B[k, n]`, and their product `[m, n]` leaves. The number of terms
is part of the algorithm, so that the reduction loop has a constant extent; the output may have any size.
"""

from functools import partial

import halide as hl
import numpy as np

from .app import SMALL_HEIGHT, SMALL_WIDTH, App, Array, Inputs, Shape, Tolerance

__all__ = ["APP", "APP_F64"]

_SIZE = 1536
# By the names of `SIZES` in app.py: Sioutas et al. 2020, §5.1.
_SIZES = {"small": 512, "large": 4096}


def _build(name: str, bits: int, size: int) -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    left, right = (hl.ImageParam(hl.Float(bits), 2, matrix) for matrix in ("A", "B"))
    k = hl.RDom([(0, size)], "k")
    product, output = hl.Func("product"), hl.Func(name)
    product[x, y] = hl.cast(hl.Float(bits), 0)
    product[x, y] += left[k.x, y] * right[x, k.x]
    # A Func of its own, so that a schedule can accumulate tiles of the product in registers.
    output[x, y] = product[x, y]
    for function in (left, right, output):
        function.set_estimates([(0, size), (0, size)])
    return hl.Pipeline(output)


def _inputs(dtype: type[np.floating], size: int, output_shape: Shape, seed: int) -> Inputs:
    rows, columns = output_shape
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(-1, 1, (rows, size)), rng.uniform(-1, 1, (size, columns))
    return {"A": left.astype(dtype), "B": right.astype(dtype)}


def _reference(inputs: Inputs) -> Array:
    product: Array = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    return product.astype(inputs["A"].dtype)


def _app(name: str, dtype: type[np.floating], tolerance: Tolerance, size: int = _SIZE) -> App:
    bits = 8 * np.dtype(dtype).itemsize
    return App(
        name=name,
        title=f"Matrix multiplication, float{bits}",
        description=f"Product of two matrices of {size} x {size}, float{bits}.",
        build=partial(_build, name, bits, size),
        output_shape=(size, size),
        small_output_shape=(SMALL_HEIGHT, SMALL_WIDTH),
        output_type=np.dtype(dtype),
        make_inputs=partial(_inputs, dtype, size),
        reference=_reference,
        tolerance=tolerance,
        resize=lambda named: _app(name, dtype, tolerance, _SIZES[named]),
    )


# Terms of both signs cancel, so the error is measured against their size: sums of about 13 of terms below 1.
APP = _app("matmul", np.float32, Tolerance(absolute=1e-3, relative=1e-4))
APP_F64 = _app("matmul_f64", np.float64, Tolerance(absolute=1e-11, relative=1e-12))
