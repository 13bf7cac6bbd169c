"""Physics and simulation: steps of solvers on grids, particles, cellular automata and fractals."""

import math
from collections.abc import Callable, Mapping

import halide as hl

X, Y, Z, C, T, N = (hl.Var(name) for name in ("x", "y", "z", "c", "t", "n"))

# The nine velocities of the D2Q9 lattice, and the number of the opposite of each.
_ACROSS = (0, 1, 0, -1, 0, 1, -1, -1, 1)
_DOWN = (0, 0, 1, 0, -1, 1, 1, -1, -1)
_OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
_SHARES = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)


def _image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def _number(name: str, value: float) -> hl.Param:
    """Return a scalar input with its default, which is its estimate too."""
    param = hl.Param(hl.Float(32), name, value)
    param.set_estimate(value)
    return param


def _neighbours(grid: hl.Func | hl.ImageParam) -> hl.Expr:
    """Return the sum of the four neighbours of a cell."""
    return (grid[X - 1, Y] + grid[X + 1, Y]) + (grid[X, Y - 1] + grid[X, Y + 1])


def red_black(width: int = 2048, height: int = 1024) -> hl.Pipeline:
    """Return pressures after a red-black Gauss-Seidel sweep of a Poisson equation, between closed walls."""
    pressure, source = (_image(width, height, name=name) for name in ("pressure", "source"))
    columns, rows = pressure.width(), pressure.height()
    bounded, red, walled, output = (hl.Func(name) for name in ("bounded", "red", "walled", "red_black"))
    column, row = hl.clamp(hl.likely(X), 0, columns - 1), hl.clamp(hl.likely(Y), 0, rows - 1)
    quarter = hl.f32(0.25)
    bounded[X, Y] = pressure[column, row]
    red[X, Y] = hl.select((X + Y) % 2 == 0, quarter * (_neighbours(bounded) + source[X, Y]), pressure[X, Y])
    walled[X, Y] = red[column, row]
    output[X, Y] = hl.select((X + Y) % 2 == 1, quarter * (_neighbours(walled) + source[X, Y]), red[X, Y])
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def _laplacian(grid: hl.Func | hl.ImageParam) -> hl.Expr:
    """Return the Laplacian of fourth order."""
    near = _neighbours(grid)
    far = (grid[X - 2, Y] + grid[X + 2, Y]) + (grid[X, Y - 2] + grid[X, Y + 2])
    return hl.f32(4 / 3) * near - hl.f32(1 / 12) * far - hl.f32(5) * grid[X, Y]


def wave_two_steps(width: int = 1536, height: int = 1024, ghosts: int = 4) -> hl.Pipeline:
    """Return waves two leapfrog time steps later, in a medium whose speed differs from place to place."""
    sizes = width + 2 * ghosts, height + 2 * ghosts
    before, now, speed = (_image(*sizes, name=name) for name in ("before", "now", "speed"))
    courant = _number("courant", 0.4)
    strength, first, second, output = (hl.Func(name) for name in ("strength", "first", "second", "wave_two_steps"))
    strength[X, Y] = (courant * speed[X, Y]) * (courant * speed[X, Y])
    first[X, Y] = hl.f32(2) * now[X, Y] - before[X, Y] + strength[X, Y] * _laplacian(now)
    second[X, Y] = hl.f32(2) * first[X, Y] - now[X, Y] + strength[X, Y] * _laplacian(first)
    output[X, Y] = second[X + ghosts, Y + ghosts]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def jacobi7_3d(side: int = 128) -> hl.Pipeline:
    """Return two Jacobi steps of a Poisson equation in three dimensions, of a block with two layers of ghost cells."""
    guess, source = (_image(side + 4, side + 4, side + 4, name=name) for name in ("guess", "source"))
    first, second, output = (hl.Func(name) for name in ("first", "second", "jacobi7_3d"))
    for result, grid in ((first, guess), (second, first)):
        along_x = grid[X - 1, Y, Z] + grid[X + 1, Y, Z]
        along_y = grid[X, Y - 1, Z] + grid[X, Y + 1, Z]
        along_z = grid[X, Y, Z - 1] + grid[X, Y, Z + 1]
        result[X, Y, Z] = hl.f32(1 / 6) * (along_x + along_y + along_z + source[X, Y, Z])
    output[X, Y, Z] = second[X + 2, Y + 2, Z + 2]
    output.set_estimates([(0, side)] * 3)
    return hl.Pipeline(output)


def lattice_boltzmann(width: int = 640, height: int = 480) -> hl.Pipeline:
    """Return a time step of a flow around solids (D2Q9): particles collide, then stream or bounce back."""
    particles = _image(width + 2, height + 2, 9, name="particles")
    solid = _image(width + 2, height + 2, name="solid", pixel=hl.UInt(8))
    relaxation = _number("relaxation", 0.6)
    moments, collided, output = (hl.Func(name) for name in ("moments", "collided", "lattice_boltzmann"))
    here = [particles[X, Y, k] for k in range(9)]
    density = sum(here[1:], here[0])
    flows = (sum((turns[k] * here[k] for k in range(9) if turns[k]), hl.f32(0)) for turns in (_ACROSS, _DOWN))
    moments[X, Y] = (density, *(flow / density for flow in flows))
    mass, right, down = (moments[X, Y][part] for part in range(3))
    energy = hl.f32(1.5) * (right * right + down * down)

    def equilibrium(k: int) -> hl.Expr:
        speed = hl.f32(3) * (_ACROSS[k] * right + _DOWN[k] * down)
        return hl.f32(_SHARES[k]) * mass * (hl.f32(1) + speed + hl.f32(0.5) * speed * speed - energy)

    collided[X, Y, C] = hl.mux(C, [here[k] + relaxation * (equilibrium(k) - here[k]) for k in range(9)])
    x, y = X + 1, Y + 1
    came_from = [(x - _ACROSS[k], y - _DOWN[k]) for k in range(9)]
    moving = [collided[x - _ACROSS[k], y - _DOWN[k], k] for k in range(9)]
    bounced = [collided[x, y, _OPPOSITE[k]] for k in range(9)]
    streamed = [
        hl.select(solid[place] < 16, back, onward)
        for place, back, onward in zip(came_from, bounced, moving, strict=True)
    ]
    output[X, Y, C] = hl.mux(C, streamed)
    output.set_estimates([(0, width), (0, height), (0, 9)])
    return hl.Pipeline(output)


def advect(width: int = 1024, height: int = 512) -> hl.Pipeline:
    """Return three fields carried along by one velocity: semi-Lagrangian, between the four nearest cells."""
    fields, velocity = _image(width, height, 3, name="fields"), _image(width, height, 2, name="velocity")
    step = _number("step", 4.0)
    departure, output = hl.Func("departure"), hl.Func("advect")
    lasts = fields.width() - 1, fields.height() - 1
    departure[X, Y] = tuple(
        hl.clamp(hl.f32(place) - step * velocity[X, Y, axis], hl.f32(0), hl.f32(lasts[axis]))
        for axis, place in enumerate((X, Y))
    )
    column, row = departure[X, Y][0], departure[X, Y][1]
    left, top = hl.clamp(hl.i32(column), 0, lasts[0]), hl.clamp(hl.i32(row), 0, lasts[1])
    right, bottom = hl.min(left + 1, lasts[0]), hl.min(top + 1, lasts[1])
    across, down = column - hl.f32(left), row - hl.f32(top)
    above, below = (hl.lerp(fields[left, at, C], fields[right, at, C], across) for at in (top, bottom))
    output[X, Y, C] = hl.lerp(above, below, down)
    output.set_estimates([(0, width), (0, height), (0, 3)])
    return hl.Pipeline(output)


def thomas_rows(width: int = 1024, height: int = 1024) -> hl.Pipeline:
    """Return a diffusion step, explicit along x and implicit along y: a tridiagonal system for every column."""
    field, rate = _image(width + 2, height, name="field"), _number("rate", 0.4)
    factor, explicit, forward, backward = (hl.Func(name) for name in ("factor", "explicit", "forward", "backward"))
    output, last = hl.Func("thomas_rows"), field.height() - 1
    up, down, back = (hl.RDom([(1, last)], name) for name in ("up", "down", "back"))
    diagonal = hl.f32(1) + hl.f32(2) * rate
    factor[Y] = rate / diagonal
    factor[up.x] = rate / (diagonal - rate * factor[up.x - 1])
    middle = field[X + 1, Y]
    explicit[X, Y] = middle + rate * (field[X, Y] - hl.f32(2) * middle + field[X + 2, Y])
    forward[X, Y] = explicit[X, Y] * factor[Y] / rate
    forward[X, down.x] += factor[down.x] * forward[X, down.x - 1]
    backward[X, Y] = forward[X, Y]
    backward[X, last - back.x] += factor[last - back.x] * backward[X, last - back.x + 1]
    output[X, Y] = backward[X, Y]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def n_body(bodies: int = 2048) -> hl.Pipeline:
    """Return where bodies are a time step later, each drawn by all others, with softened gravity."""
    body, velocity = _image(bodies, 4, name="body"), _image(bodies, 3, name="velocity")
    step, gravity, softening = _number("step", 0.25), _number("gravity", 0.0005), _number("softening", 0.01)
    acceleration, output = hl.Func("acceleration"), hl.Func("n_body")
    other = hl.RDom([(0, body.width())], "other")
    away = [body[other.x, axis] - body[N, axis] for axis in range(3)]
    square = away[0] * away[0] + away[1] * away[1] + away[2] * away[2] + softening
    pull = body[other.x, 3] / (square * hl.sqrt(square))
    acceleration[N] = (hl.f32(0), hl.f32(0), hl.f32(0))
    acceleration[N] = tuple(acceleration[N][axis] + away[axis] * pull for axis in range(3))
    speeds = [velocity[N, axis] + step * gravity * acceleration[N][axis] for axis in range(3)]
    output[N] = tuple(body[N, axis] + step * speeds[axis] for axis in range(3))
    output.set_estimates([(0, bodies)])
    return hl.Pipeline(output)


def mandelbrot(width: int = 1024, height: int = 768, steps: int = 32) -> hl.Pipeline:
    """Return the Mandelbrot set, shaded by how soon points escape, in fixed point with 12 bits after the point."""
    orbit, steps_inside, output = (hl.Func(name) for name in ("orbit", "steps_inside", "mandelbrot"))
    step, counted = hl.RDom([(1, steps - 1)], "step"), hl.RDom([(0, steps)], "counted")
    real, imaginary = X * (3 << 12) // width - (2 << 12), Y * (2 << 12) // height - (1 << 12)

    def is_inside(time: hl.Expr) -> hl.Expr:
        a, b = orbit[X, Y, time][0], orbit[X, Y, time][1]
        return a * a + b * b <= 4 << 24

    orbit[X, Y, T] = (hl.i32(0), hl.i32(0))
    a, b = orbit[X, Y, step.x - 1][0], orbit[X, Y, step.x - 1][1]
    inside = is_inside(step.x - 1)
    moved = ((a * a - b * b) >> 12) + real, ((a * b) >> 11) + imaginary
    orbit[X, Y, step.x] = (hl.select(inside, moved[0], a), hl.select(inside, moved[1], b))
    steps_inside[X, Y] = hl.i32(0)
    steps_inside[X, Y] += hl.select(is_inside(counted.x), 1, 0)
    output[X, Y] = hl.u8(hl.min(steps_inside[X, Y] * (256 // steps), 255))
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def game_of_life(width: int = 3072, height: int = 2048) -> hl.Pipeline:
    """Return the board of the game of life two generations later, of a larger board of bytes, alive where odd."""
    board = _image(width + 4, height + 4, name="board", pixel=hl.UInt(8))
    alive, output = hl.Func("alive"), hl.Func("game_of_life")
    alive[X, Y] = board[X, Y] & 1
    cells = alive
    for generation in ("first", "second"):
        triples, around, later = (hl.Func(f"{generation}_{name}") for name in ("triples", "sums", "generation"))
        triples[X, Y] = cells[X - 1, Y] + cells[X, Y] + cells[X + 1, Y]
        around[X, Y] = triples[X, Y - 1] + triples[X, Y] + triples[X, Y + 1]
        # The sums count the cell itself: three make it alive, four keep it as it is.
        later[X, Y] = hl.select((around[X, Y] == 3) | ((around[X, Y] == 4) & (cells[X, Y] == 1)), hl.u8(1), hl.u8(0))
        cells = later
    output[X, Y] = cells[X + 2, Y + 2]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def distance_transform_rows(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return how far the nearest obstacle of the row is, by a scan to the right and one to the left."""
    mask = _image(width, height, name="mask", pixel=hl.UInt(8))
    distance, output = hl.Func("distance"), hl.Func("distance_transform_rows")
    last = mask.width() - 1
    right, left = hl.RDom([(1, last)], "right"), hl.RDom([(1, last)], "left")
    one = hl.u16(1)
    distance[X, Y] = hl.select(mask[X, Y] < 8, hl.u16(0), hl.u16(16384))
    distance[right.x, Y] = hl.min(distance[right.x, Y], distance[right.x - 1, Y] + one)
    place = last - left.x
    distance[place, Y] = hl.min(distance[place, Y], distance[place + 1, Y] + one)
    output[X, Y] = distance[X, Y]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def divergence_and_gradient(width: int = 1280, height: int = 1024, ghosts: int = 3) -> hl.Pipeline:
    """Return both parts of a staggered velocity less the gradient of a pressure, which two Jacobi steps improve."""
    sizes = width + 2 * ghosts, height + 2 * ghosts
    across, down, guess = (_image(*sizes, name=name) for name in ("across", "down", "guess"))
    divergence, first, second = (hl.Func(name) for name in ("divergence", "first", "second"))
    divergence[X, Y] = (across[X + 1, Y] - across[X, Y]) + (down[X, Y + 1] - down[X, Y])
    first[X, Y] = hl.f32(0.25) * (_neighbours(guess) - divergence[X, Y])
    second[X, Y] = hl.f32(0.25) * (_neighbours(first) - divergence[X, Y])
    projected_across, projected_down = hl.Func("projected_across"), hl.Func("projected_down")
    x, y = X + ghosts, Y + ghosts
    projected_across[X, Y] = across[x, y] - (second[x, y] - second[x - 1, y])
    projected_down[X, Y] = down[x, y] - (second[x, y] - second[x, y - 1])
    for output in (projected_across, projected_down):
        output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline([projected_across, projected_down])


def cosine_transform(blocks_across: int = 240, blocks_down: int = 180) -> hl.Pipeline:
    """Return the cosine transform of each block of 8 by 8 pixels: along rows, then along columns."""
    source = _image(8 * blocks_across, 8 * blocks_down, name="source")
    u, v, block_x, block_y = (hl.Var(name) for name in ("u", "v", "block_x", "block_y"))
    cosines, rows, blocks, output = (hl.Func(name) for name in ("cosines", "rows", "blocks", "cosine_transform"))
    i, j = hl.RDom([(0, 8)], "i"), hl.RDom([(0, 8)], "j")
    angle = hl.f32((2 * X + 1) * u) * hl.f32(math.pi / 16)
    cosines[u, X] = hl.select(u == 0, hl.f32(math.sqrt(1 / 8)), hl.f32(0.5) * hl.cos(angle))
    rows[u, Y, block_x] = hl.f32(0)
    rows[u, Y, block_x] += cosines[u, i.x] * source[8 * block_x + i.x, Y]
    blocks[u, v, block_x, block_y] = hl.f32(0)
    blocks[u, v, block_x, block_y] += cosines[v, j.x] * rows[u, 8 * block_y + j.x, block_x]
    output[u, v, block_x, block_y] = blocks[u, v, block_x, block_y]
    output.set_estimates([(0, 8), (0, 8), (0, blocks_across), (0, blocks_down)])
    return hl.Pipeline(output)


def _in_strips(output: hl.Func, rows: int, vector: int) -> tuple[hl.Var, hl.Var]:
    """Let tasks compute strips of so many rows; return the loops over strips, and over rows in a strip."""
    x, y = output.args()[:2]
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, rows).vectorize(x, vector).parallel(strip)
    return strip, row


def _slide(func: hl.Func, output: hl.Func, loops: tuple[hl.Var, hl.Var], vector: int) -> None:
    """Compute row by row, and keep the rows that the next ones need."""
    strip, row = loops
    func.store_at(output, strip).compute_at(output, row).vectorize(func.args()[0], vector)


def _red_black(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["red_black"]
    _slide(f["red"], output, _in_strips(output, 64, lanes), lanes)


def _wave_two_steps(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["wave_two_steps"]
    _slide(f["first"], output, _in_strips(output, 64, 2 * lanes), 2 * lanes)


def _jacobi7_3d(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, first = f["jacobi7_3d"], f["first"]
    x, y, z = output.args()
    block, plane = hl.Var("block"), hl.Var("plane")
    output.split(z, block, plane, 32).vectorize(x, 2 * lanes).parallel(block)
    # Planes slide, and within each so do rows.
    first.store_at(output, block).compute_at(output, y).vectorize(first.args()[0], 2 * lanes)


def _lattice_boltzmann(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, collided = f["lattice_boltzmann"], f["collided"]
    x, _, c = output.args()
    strip, row = loops = _in_strips(output, 120, 2 * lanes)
    output.reorder(c, x, row, strip).unroll(c, 9)
    _slide(collided, output, loops, 2 * lanes)
    x, y, c = collided.args()
    collided.reorder(c, x, y).bound(c, 0, 9).unroll(c)


def _advect(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, departure = f["advect"], f["departure"]
    x, _, c = output.args()
    # As measured: loads from many places take longer in longer vectors with AVX-512, and not with AVX2.
    vector = 8 if lanes == 16 else 4 * lanes
    strip, row = _in_strips(output, 16, vector)
    output.reorder(c, x, row, strip).unroll(c, 3)
    departure.compute_at(output, x).vectorize(departure.args()[0], vector)


def _thomas_rows(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["thomas_rows"]
    x, y = output.args()
    strip, column = hl.Var("strip"), hl.Var("column")
    width = 4 * lanes
    f["factor"].compute_root()
    output.split(x, strip, column, width).reorder(column, y, strip).vectorize(column, lanes).unroll(column)
    output.parallel(strip)
    for name in ("forward", "backward"):
        func = f[name]
        x, y = func.args()
        (k,) = func.rvars(0)
        func.compute_at(output, strip).vectorize(x, lanes).unroll(x)
        func.update().reorder(x, k).vectorize(x, lanes).unroll(x)


def _n_body(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, acceleration = f["n_body"], f["acceleration"]
    (n,) = output.args()
    task = hl.Var("task")
    output.split(n, task, n, 2 * lanes).vectorize(n, lanes).unroll(n).parallel(task)
    (n,) = acceleration.args()
    (other,) = acceleration.rvars(0)
    acceleration.compute_at(output, task).vectorize(n, lanes).unroll(n)
    acceleration.update().reorder(n, other).vectorize(n, lanes).unroll(n)


def _mandelbrot(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, orbit, inside = f["mandelbrot"], f["orbit"], f["steps_inside"]
    x, y = output.args()
    column = hl.Var("column")
    output.split(x, x, column, 4 * lanes).vectorize(column).parallel(y, 8)
    for func in (inside, orbit):
        x, y = func.args()[:2]
        (step,) = func.rvars(0)
        func.compute_at(output, output.args()[0]).vectorize(x, lanes).unroll(x)
        func.update().reorder(x, step, y).vectorize(x, lanes).unroll(x).unroll(step)
    orbit.unroll(orbit.args()[2])


def _game_of_life(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["game_of_life"]
    loops = _in_strips(output, 64, 4 * lanes)
    for name in ("first_triples", "first_generation"):
        _slide(f[name], output, loops, 4 * lanes)


def _distance_transform_rows(f: Mapping[str, hl.Func], lanes: int) -> None:
    # Rows side by side in memory: their scans are vectors.
    output, distance = f["distance_transform_rows"], f["distance"]
    x, y = output.args()
    strip, row, xi, yi = (hl.Var(name) for name in ("strip", "row", "xi", "yi"))
    output.split(y, strip, row, 16).tile(x, row, xi, yi, 8, 8).vectorize(xi).unroll(yi).parallel(strip)
    x, y = distance.args()
    distance.compute_at(output, strip).reorder_storage(y, x)
    distance.tile(x, y, xi, yi, 16, 16).vectorize(yi).unroll(xi)
    for number in range(2):
        (place,) = distance.rvars(number)
        distance.update(number).reorder(y, place).vectorize(y, 16)


def _divergence_and_gradient(f: Mapping[str, hl.Func], lanes: int) -> None:
    outputs = f["projected_across"], f["projected_down"]
    for output in outputs:
        strip, _ = _in_strips(output, 32, 2 * lanes)
    outputs[0].compute_with(outputs[1], outputs[1].args()[0])
    for name in ("first", "second"):
        f[name].compute_at(outputs[1], strip).vectorize(f[name].args()[0], 2 * lanes)


def _cosine_transform(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, rows, blocks = f["cosine_transform"], f["rows"], f["blocks"]
    u, v, _, block_y = output.args()
    tile, row = hl.Var("tile"), hl.Var("row")
    vector = min(lanes, 8)
    f["cosines"].compute_root()
    output.split(v, tile, row, 8).vectorize(u, vector).unroll(row).parallel(block_y)
    for func in (rows, blocks):
        (k,) = func.rvars(0)
        u, v, *_ = func.args()
        func.compute_at(output, tile).bound_extent(u, 8).vectorize(u, vector).unroll(v)
        func.update().reorder(u, v, k).vectorize(u, vector).unroll(v)
    blocks.update().unroll(blocks.rvars(0)[0])


SCHEDULES: dict[str, Callable[[Mapping[str, hl.Func], int], None]] = {
    "red_black": _red_black,
    "wave_two_steps": _wave_two_steps,
    "jacobi7_3d": _jacobi7_3d,
    "lattice_boltzmann": _lattice_boltzmann,
    "advect": _advect,
    "thomas_rows": _thomas_rows,
    "n_body": _n_body,
    "mandelbrot": _mandelbrot,
    "game_of_life": _game_of_life,
    "distance_transform_rows": _distance_transform_rows,
    "divergence_and_gradient": _divergence_and_gradient,
    "cosine_transform": _cosine_transform,
}
