import halide as hl
import pytest
from slow_cases import slow_but

import metol_apps
from metol.errors import UnknownAppError
from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler
from metol_apps.by_hand import schedule_by_hand

SUITE = metol_apps.names("full")
LONGEST = ("lens_blur", "local_laplacian", "interpolate", "stencil_chain", "learned_demosaic", "nl_means")  # to compile


@pytest.mark.parametrize("lanes", slow_but((), [4, 16], further=[16]))
@pytest.mark.parametrize("name", SUITE)
def test_every_application_has_a_schedule_by_hand_that_lowers(name: str, lanes: int) -> None:
    pipeline = metol_apps.get(name).build()
    schedule_by_hand(name, pipeline, lanes)
    target = hl.get_host_target()
    pipeline.compile_to_module(pipeline.infer_arguments(), "by_hand", target)


@pytest.mark.slow
def test_a_schedule_by_hand_is_verified_like_any_other() -> None:
    source = PipelineSource.parse("app:blur")
    (row,) = LocalRunner(RunOptions(timing=None)).run(source, [Scheduler.parse("hand").of_pipeline(source)])
    assert row.is_ok, row.problem


@pytest.mark.parametrize("name", slow_but((), SUITE, further=LONGEST))
def test_schedules_by_hand_are_right(name: str, computes_reference) -> None:
    app = metol_apps.get(name)
    pipeline = app.build()
    schedule_by_hand(name, pipeline, lanes=8)
    # Of the estimated size, which alone it is made for, a part of many tiles: there the reference takes no long time.
    shape = (*app.output_shape[:-2], *map(min, app.output_shape[-2:], (384, 512)))
    assert computes_reference(app, pipeline, shape)


@pytest.mark.slow
def test_what_nobody_has_scheduled_is_refused() -> None:
    with pytest.raises(UnknownAppError, match="no schedule by hand of `nothing`"):
        schedule_by_hand("nothing", metol_apps.get("blur").build(), 8)
    (row,) = LocalRunner(RunOptions(timing=None)).run(
        PipelineSource.parse("app:conv_relu"), [Scheduler.parse("hand:conv_relu")]
    )
    assert "no schedule by hand of `conv_relu`" in row.problem
