import pytest
from lower_cases import GUARD, R_I, R_O, X_I, X_O, R, X, Y, build_blur, build_reduction, on

from metol.errors import ScheduleFormatError
from metol.lower import Call, Directive, FuncRef, RVar, Schedule, Site, Tail, Var, describe_funcs

SPLIT_X = on(1, 1, Call.SPLIT, X, X_O, X_I, 8, GUARD)


@pytest.mark.parametrize(
    ("directives", "message"),
    [
        ([on(2, 0, Call.COMPUTE_ROOT)], "there is no Func 2"),
        ([on(1, 3, Call.PARALLEL, X)], "Func 1 has no stage 3"),
        ([on(1, 1, Call.PARALLEL, X, branch=(0,))], r"stage 1 has no branch \(0,\) yet"),
        ([on(1, 1, Call.COMPUTE_ROOT)], "compute_root is for a Func"),
        ([on(1, 0, Call.ATOMIC)], "atomic is for updates only"),
        ([on(1, 0, Call.PARALLEL)], "parallel does not take 0 arguments"),
        ([on(1, 0, Call.VECTORIZE, X, 8)], "vectorize does not take 2 arguments"),
        ([on(1, 0, Call.REORDER, X)], "reorder does not take 1 arguments"),
        ([on(1, 0, Call.GPU_THREADS, X, Y, X, Y)], "gpu_threads does not take 4 arguments"),
        ([on(1, 0, Call.SPECIALIZE, 0)], "specialize does not take 1 arguments"),
        ([on(1, 0, Call.PARALLEL, "x")], "'x' is not a loop"),
        ([on(1, 0, Call.VECTORIZE, X, True, GUARD)], "True is not a factor"),
        ([on(1, 0, Call.VECTORIZE, X, 0, GUARD)], "a factor is 1 or more, not 0"),
        ([on(1, 0, Call.VECTORIZE, X, 8, 8)], "8 is not a tail"),
        ([on(1, 0, Call.STORE_IN, "Disk")], "a memory type is one of Heap, Stack"),
        ([on(1, 0, Call.PARALLEL, R)], "the stage has no loop RVar"),
        ([on(1, 1, Call.SPLIT, R, X_O, X_I, 8, GUARD)], "splitting a Var makes Vars, an RVar RVars"),
        ([SPLIT_X, on(1, 1, Call.PARALLEL, X)], "the stage has no loop Var.name='x'"),
        ([SPLIT_X, on(1, 1, Call.SPLIT, Y, X_O, Var("y_i"), 8, GUARD)], "already has, or had, a loop x_o"),
        ([on(1, 1, Call.SPLIT, X, Var("x.o"), X_I, 8, GUARD)], "'x.o' cannot name a loop"),
        ([on(1, 1, Call.FUSE, X, X, X_O)], "a loop cannot be fused with itself"),
        ([on(1, 1, Call.FUSE, X, R, X_O)], "fusing makes an RVar"),
        ([on(1, 0, Call.ALIGN_STORAGE, Var("z"), 8)], "`total` has no dimension z"),
        ([on(1, 0, Call.SPECIALIZE, 2, 8)], "output `total` has no dimension 2"),
        ([on(1, 0, Call.SPECIALIZE, 0, 0)], "an extent is 1 or more"),
        ([on(1, 0, Call.SPECIALIZE_SIZE, 0, 8)], "does not take 2 arguments"),
        ([on(1, 0, Call.SPECIALIZE_SIZE, 2, 0, 8)], "output `total` has no dimension 2"),
        ([on(1, 0, Call.PREFETCH, 7, X, X, 1)], "there is no Func 7"),
        ([on(1, 1, Call.RFACTOR, 3, R, Var("u"))], "must have number 2"),
        ([on(1, 1, Call.RFACTOR, 2, X, Var("u"))], "rfactor takes pairs of an RVar and a new Var"),
        ([on(0, 0, Call.IN, 3, 1)], "the Func that is made must have number 2"),
        ([on(0, 0, Call.IN, 2, 2)], "there is no Func 2"),
        ([on(0, 0, Call.IN, 2, 0)], "a Func is copied for another one"),
        ([on(0, 0, Call.COMPUTE_AT, Site(1, 5, X))], "there is no Func 1 with a stage 5"),
        ([on(0, 0, Call.COMPUTE_AT, Site(1, 1, X_O))], r"`total` stage 1 branch \(\) has no loop"),
        ([on(1, 0, Call.COMPUTE_WITH, Site(0, 0, None))], "a loop is needed, not the root"),
        ([on(1, 0, Call.PARALLEL, X), on(0, 0, Call.COMPUTE_ROOT), on(1, 0, Call.PARALLEL, Y)], "next to each other"),
    ],
)
def test_schedule_refuses_what_means_nothing(directives: list[Directive], message: str) -> None:
    with pytest.raises(ScheduleFormatError, match=message):
        Schedule(funcs=describe_funcs(build_reduction()), directives=tuple(directives))


def test_schedule_names_the_wrong_directive() -> None:
    with pytest.raises(ScheduleFormatError, match=r"Directive 1 of the schedule, `Func 1 stage 1: parallel\(x\)`"):
        Schedule(funcs=describe_funcs(build_reduction()), directives=(SPLIT_X, on(1, 1, Call.PARALLEL, X)))


def test_compute_at_needs_its_loop_in_every_branch() -> None:
    directives = (
        on(2, 0, Call.SPECIALIZE, 0, 8),
        on(2, 0, Call.SPLIT, X, X_O, X_I, 8, Tail.SHIFT_INWARDS, branch=(0,)),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, X_O)),
    )
    with pytest.raises(ScheduleFormatError, match=r"`blur_y` stage 0 branch \(\) has no loop"):
        Schedule(funcs=describe_funcs(build_blur()), directives=directives)


def test_rfactor_leaves_the_preserved_loops_to_the_update() -> None:
    split = on(1, 1, Call.SPLIT, R, R_O, R_I, 4, GUARD)
    rfactor = on(1, 1, Call.RFACTOR, 2, R_I, Var("lane"))
    funcs = describe_funcs(build_reduction())
    Schedule(funcs=funcs, directives=(split, rfactor, on(1, 1, Call.UNROLL, R_I), on(2, 1, Call.UNROLL, R_O)))
    with pytest.raises(ScheduleFormatError, match="has no loop"):
        Schedule(funcs=funcs, directives=(split, rfactor, on(1, 1, Call.UNROLL, R_O)))


def test_fusing_with_an_rvar_makes_an_rvar() -> None:
    fuse = on(1, 1, Call.FUSE, X, R, RVar("both"))
    directives = (fuse, on(1, 1, Call.SPLIT, RVar("both"), R_O, R_I, 4, GUARD))
    Schedule(funcs=describe_funcs(build_reduction()), directives=directives)


def test_schedule_refuses_funcs_out_of_place() -> None:
    with pytest.raises(ScheduleFormatError, match="position 0 of the schedule but says 1"):
        Schedule(funcs=(FuncRef(1, "f", ("x",)),), directives=())
