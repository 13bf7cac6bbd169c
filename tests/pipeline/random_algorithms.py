"""Random small algorithms over one input, to compare our bounds with Halide's own."""

import random

import halide as hl

X, Y = hl.Var("x"), hl.Var("y")


def _coordinate(var: hl.Var, rng: random.Random, rvar: hl.RVar | None) -> hl.Expr:
    """One coordinate of a read: a shift, a resampling, a clamp, a window, a flip."""
    shift = rng.randint(-3, 3)
    kind = rng.randrange(8)
    if rvar is not None and rng.random() < 0.5:
        return var + rvar * rng.choice([1, 1, 2, -1]) + shift
    if kind == 0:
        return 2 * var + shift
    if kind == 1:
        return var // 2 + shift
    if kind == 2:
        return hl.clamp(var + shift, -2, rng.randint(4, 40))
    if kind == 3:
        return rng.randint(10, 40) - var
    if kind == 4:
        return (var + shift) % rng.randint(3, 9)
    if kind == 5:
        return hl.select(var > rng.randint(0, 20), var + shift, var // 3)
    return var + shift


def _read(producers: list[hl.Func], rng: random.Random, rvar: hl.RVar | None = None) -> hl.Expr:
    producer = rng.choice(producers[-3:])
    first, second = (X, Y) if rng.random() < 0.85 else (Y, X)
    return producer[_coordinate(first, rng, rvar), _coordinate(second, rng, rvar)]


def _add_update(func: hl.Func, producers: list[hl.Func], rng: random.Random) -> None:
    kind = rng.randrange(4)
    first = rng.randint(-2, 1)
    r = hl.RDom([(first, rng.randint(2, 6))], "r")
    if kind == 0:
        func[X, Y] += _read(producers, rng, r.x)
    elif kind == 1:
        func[X, r.x] += func[X, r.x + rng.randint(1, 3)] + producers[-1][X, r.x]
    elif kind == 2:
        func[r.x, Y] = func[r.x - 1, Y] + producers[-1][r.x, Y]
    else:
        r.where(r.x > first)  # never empty: Halide then reads nothing, we take a point
        func[X, Y] = hl.max(func[X, Y], _read(producers, rng, r.x))


def build(seed: int, funcs: int = 5) -> tuple[hl.Pipeline, hl.ImageParam]:
    """A chain of Funcs that read one or two of the last three, some with updates; the output is 32 by 24."""
    rng = random.Random(seed)
    image = hl.ImageParam(hl.Int(32), 2, "image")
    image.set_estimates([(0, 64), (0, 48)])
    producers: list[hl.Func] = [image]
    for i in range(funcs):
        func = hl.Func(f"f{i}")
        func[X, Y] = _read(producers, rng) + (_read(producers, rng) if rng.random() < 0.6 else 0)
        if rng.random() < 0.4 and i + 1 < funcs:
            _add_update(func, producers, rng)
        producers.append(func)
    output = hl.Func("output")
    output[X, Y] = producers[-1][X, Y]
    output.set_estimates([(0, 32), (0, 24)])
    return hl.Pipeline(output), image
