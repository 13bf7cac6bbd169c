"""Reading what Halide's autoschedulers print: the same loops as they made, and errors that name what is not known."""

import re
from pathlib import Path

import halide as hl
import pytest
from peer_texts import PRINTED, printed_for_app, printed_now, read_text
from small_pipelines import PIPELINES, X, Y, blur, finish, image, matmul, sums_output

from metol.errors import ScheduleFormatError
from metol.lower import Call, Directive, RVar, Site, Tail, Var
from metol.pipeline import strip_schedules

BLUR = "Func f = pipeline.get_func(2); Var x(f.get_schedule().dims()[0].var); Var y(f.get_schedule().dims()[1].var);"
SUMS = "Func f = pipeline.get_func(1); RVar r_x(f.update(0).get_schedule().dims()[0].var);"


def skeleton(pipeline: hl.Pipeline, folder: Path) -> list[tuple[str, str]]:
    """Loops, allocations and productions of the lowered code, in order, without the names of loops."""
    file = folder / "lowered.stmt"
    pipeline.compile_to_lowered_stmt(str(file), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    lines = re.findall(
        r"^\s*(produce|consume|allocate|for\S*|parallel)\b[ (]*([\w$]+(?:\.s\d+)?)", file.read_text(), re.M
    )
    return [(kind, re.sub(r"\$\d+", "", name)) for kind, name in lines]


@pytest.mark.parametrize("peer", ["mullapudi2016", "adams2019-greedy"])
@pytest.mark.parametrize("name", ["chain", "matmul_output", "histogram", "in_place", "no_dimension", "two_outputs"])
def test_read_schedule_makes_the_loops_that_the_autoscheduler_made(name: str, peer: str, tmp_path: Path) -> None:
    text, scheduled = printed_now(peer, PIPELINES[name])
    again = PIPELINES[name]()
    strip_schedules(again)
    read_text(text, again)[1].apply(again)
    assert skeleton(again, tmp_path) == skeleton(scheduled, tmp_path)


@pytest.mark.parametrize("name", [file.stem for file in sorted(PRINTED.iterdir())])
def test_every_call_of_a_printed_schedule_becomes_a_directive(name: str) -> None:
    _, _, schedule = printed_for_app(name)
    text = (PRINTED / f"{name}.txt").read_text()
    for call in (Call.SPLIT, Call.FUSE, Call.VECTORIZE, Call.UNROLL, Call.PARALLEL, Call.COMPUTE_AT, Call.STORE_AT):
        assert sum(d.call is call for d in schedule.directives) == text.count(f".{call.value}("), call


def test_printed_schedule_is_read_as_it_stands() -> None:
    _, _, schedule = printed_for_app("blur.adams2019-greedy")
    assert "\n".join(map(str, schedule.directives)) == (
        "Func 2 stage 0: split(y, y_o, yi, 1279, ShiftInwards)\n"
        "Func 2 stage 0: split(x, x_o, xi, 512, ShiftInwards)\n"
        "Func 2 stage 0: split(yi, yi_o, yii, 8, ShiftInwards)\n"
        "Func 2 stage 0: split(xi, xi_o, xii, 32, ShiftInwards)\n"
        "Func 2 stage 0: vectorize(xii)\n"
        "Func 2 stage 0: compute_root()\n"
        "Func 2 stage 0: reorder(xii, xi_o, yii, x_o, yi_o, y_o)\n"
        "Func 2 stage 0: parallel(y_o)\n"
        "Func 1 stage 0: store_in(Stack)\n"
        "Func 1 stage 0: split(x, x_o, xi, 32, ShiftInwards)\n"
        "Func 1 stage 0: vectorize(xi)\n"
        "Func 1 stage 0: compute_at(Func 2 stage 0 x_o)\n"
        "Func 1 stage 0: reorder(xi, x_o, y)"
    )


def directives(text: str, build=blur) -> tuple[Directive, ...]:
    return read_text(text, build())[1].directives


def test_fused_loop_has_a_name_of_its_own() -> None:
    fuse, parallel = directives(f"{BLUR} f.fuse(x, y, x).parallel(x);")
    assert fuse.args == (Var("x"), Var("y"), Var("x_o"))
    assert parallel.args == (Var("x_o"),)


@pytest.mark.parametrize("tail", ["", ", TailStrategy::Auto"])
def test_split_without_a_tail_gets_the_one_that_halide_takes(tail: str) -> None:
    text = (
        f"{SUMS} Var x = f.args()[0]; Var xi('xi'); RVar ri('ri'); f.split(x, x, xi, 4{tail});"
        f"f.update(0).split(x, x, xi, 4{tail}).split(r_x, r_x, ri, 2{tail});"
    ).replace("'", '"')
    splits = directives(text, sums_output)
    assert [split.args[-1] for split in splits] == [Tail.SHIFT_INWARDS, Tail.ROUND_UP, Tail.GUARD_WITH_IF]


def test_parts_of_an_rvar_are_rvars() -> None:
    text = f'{SUMS} RVar ri("ri"); f.compute_root(); f.update(0).split(r_x, r_x, ri, 2);'
    assert directives(text, sums_output)[-1].args[:3] == (RVar("r$x"), RVar("r_x"), RVar("ri"))


def test_update_that_the_text_leaves_alone_is_unscheduled() -> None:
    text = f"{SUMS} f.compute_root(); f.update(0).reorder({{r_x}});"
    assert directives(text, sums_output)[-1] == Directive(1, 1, Call.UNSCHEDULED)


def test_loops_are_found_by_position_whatever_their_names_are() -> None:
    v7 = "Func f = pipeline.get_func(2); Var v7(f.get_schedule().dims()[1].var); f.parallel(v7);"
    assert directives(v7) == (Directive(2, 0, Call.PARALLEL, (Var("y"),)),)


def test_loop_that_is_declared_nowhere_is_known_by_its_name() -> None:
    assert directives("Func f = pipeline.get_func(2); f.reorder(y, x);")[0].args == (Var("y"), Var("x"))


def test_place_is_in_the_stage_that_reads() -> None:
    text = (
        "Func output = pipeline.get_func(4); Func product = pipeline.get_func(3); Func twice = pipeline.get_func(2);"
        'Var x = product.args()[0]; Var xi("xi"); output.compute_root(); product.compute_root();'
        "product.update(0).split(x, x, xi, 8); twice.compute_at(product, x);"
    )
    place = directives(text, read_in_an_update)[-1]
    assert place == Directive(2, 0, Call.COMPUTE_AT, (Site(3, 1, Var("x_o")),))


def read_in_an_update() -> hl.Pipeline:
    """A Func whose update alone reads another Func."""
    source, other = image(40, 8), image(40, 24, name="other")
    r = hl.RDom([(0, 8)], "r")
    twice, product, output = hl.Func("twice"), hl.Func("product"), hl.Func("output")
    twice[X, Y] = source[X, Y] * 2
    product[X, Y] = other[X, Y]
    product[X, Y] += twice[X, r.x]
    output[X, Y] = product[X, Y] + 1
    return finish(output)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f.tile(x, y, xi, yi, 8, 8);", r"no directive does this: `f\.tile\(x, y, xi, yi, 8, 8\)`"),
        ("f.compute_root;", r"no directive does this: `f\.compute_root`"),
        ("g.compute_root();", r"no Func of this name is declared: `g\.compute_root\(\)`"),
        ("f.update(0).parallel(y);", r"Func 2 has 1 stages: `f\.update\(0\)\.parallel\(y\)`"),
        ("f.parallel(z);", "stage 0 of Func 2 has no such loop: `z`"),
        ("f.split(x, x, xi, 8).parallel(xj);", "has no such loop: `xj`"),
        ("f.split(x, x, xi);", r"these arguments: `f\.split\(x, x, xi\)`"),
        ("f.split(x, x, xi, 8, TailStrategy::RoundUpAndBlend);", "these arguments"),
        ("f.store_in(MemoryType::LockedCache);", "these arguments"),
        ("f.compute_at(f);", "these arguments"),
        ("f.compute_root(x);", "these arguments"),
        ("f.fuse(x, y);", "these arguments"),
        ("f.vectorize(x, 8);", "these arguments"),
        ("f.parallel(3);", "these arguments"),
        ("Func g = pipeline.get_func(1); g.compute_at(f, z);", "Func 2 has no such loop once it is scheduled: `z`"),
        ("Func g = pipeline.get_func(9);", r"the pipeline has 3 Funcs: `get_func\(9\)`"),
        ("Func g = f;", "this declaration: `Func g = f`"),
        ("Var z = f.args()[2];", r"the stage has 2 loops: `f\.args\(\)\[2\]`"),
        ("Var z = f.rvars(0)[0];", r"this loop: `f\.rvars\(0\)\[0\]`"),
        ("Var z(f.update(3).get_schedule().dims()[0].var);", "Func 2 has 1 stages"),
    ],
)
def test_text_that_means_nothing_here_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScheduleFormatError, match=message):
        directives(f"{BLUR} {text}")


def test_place_in_a_func_that_is_not_scheduled_is_refused() -> None:
    text = "Func f = pipeline.get_func(2); Func g = pipeline.get_func(3); f.compute_at(g, x);"
    with pytest.raises(ScheduleFormatError, match="Func 3 has no such loop once it is scheduled: `x`"):
        directives(text, matmul)
