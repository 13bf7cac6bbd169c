import json
from pathlib import Path

import halide as hl
import numpy as np
import pytest

from metol import autoschedule
from metol.errors import MetolError
from metol.measure import PipelineSource, Scheduler
from metol.measure.cases import output_shapes
from metol.measure.serialized import load_pipeline, save_pipeline

# More digits than Halide prints.
THIRD = float(np.float32(1 / 3))


@pytest.mark.parametrize("name", ["blur", "interleaved", "pair", "histogram"])
def test_load_restores_estimates_and_constraints(name: str, planted, tmp_path: Path) -> None:
    save_pipeline(planted(name).build(), tmp_path / "first.hlpipe")
    save_pipeline(load_pipeline(tmp_path / "first.hlpipe"), tmp_path / "second.hlpipe")
    first, second = (json.loads((tmp_path / f"{which}.hlpipe.json").read_text()) for which in ("first", "second"))
    assert first == second
    assert any(low is not None for state in first["parameters"] for low, _ in state["estimates"])


@pytest.mark.parametrize("is_output", [False, True])
def test_load_restores_that_a_stride_is_open(*, is_output: bool, tmp_path: Path) -> None:
    """Halide takes the first dimension of a new parameter for dense."""
    x, y, source, result = hl.Var("x"), hl.Var("y"), hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
    result[x, y] = source[x, y] + 1
    source.set_estimates([(0, 64), (0, 32)])
    result.set_estimates([(0, 64), (0, 32)])
    buffer = result.output_buffer() if is_output else source
    buffer.dim(0).set_stride(hl.Expr())
    buffer.dim(1).set_stride(1)
    pipeline = hl.Pipeline(result)
    save_pipeline(pipeline, tmp_path / "open.hlpipe")
    found = autoschedule(load_pipeline(tmp_path / "open.hlpipe"), verify=True)
    assert found.is_compared
    assert autoschedule(pipeline, verify=True).is_compared


def test_load_restores_scalars_of_every_type(tmp_path: Path) -> None:
    params = [hl.Param(kind, f"p{i}") for i, kind in enumerate([hl.Int(64), hl.UInt(8), hl.Bool(), hl.Float(32)])]
    for param, value in zip(params, (-(2**40), 200, True, THIRD), strict=True):
        param.set_estimate(value)
    params[3].set_range(-(2.0**-40), 5.5)
    x, result = hl.Var("x"), hl.Func("result")
    result[x] = hl.select(params[2], hl.f32(params[0]) + params[1] + params[3], 0.0)
    result.set_estimates([(0, 100)])
    save_pipeline(hl.Pipeline(result), tmp_path / "scalars.hlpipe")
    arguments = load_pipeline(tmp_path / "scalars.hlpipe").infer_arguments()
    values = {a.name: hl.evaluate(a.argument_estimates.scalar_estimate) for a in arguments}
    assert values["p0"] == -(2**40)
    assert (values["p1"], bool(values["p2"])) == (200, True)
    assert values["p3"] == THIRD


def test_loaded_pipeline_can_be_scheduled_by_a_peer_and_compiled(planted, tmp_path: Path) -> None:
    save_pipeline(planted("interleaved").build(), tmp_path / "p.hlpipe")
    pipeline = PipelineSource.parse(str(tmp_path / "p.hlpipe")).build()
    Scheduler.parse("mullapudi2016").apply(pipeline, hl.get_host_target(), 2)
    pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())


def test_load_works_without_a_sidecar(planted, tmp_path: Path) -> None:
    save_pipeline(planted("blur").build(), tmp_path / "p.hlpipe")
    (tmp_path / "p.hlpipe.json").unlink()
    assert load_pipeline(tmp_path / "p.hlpipe").outputs()


def brightened(folder: Path) -> Path:
    """A file as Halide writes it, of a pipeline with two values and its estimates."""
    x, y, source, result = hl.Var("x"), hl.Var("y"), hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
    result[x, y] = (source[x + 1, y] * 3, source[x, y] + 1)
    result.set_estimates([(2, 100), (0, 50)])
    hl.serialize_pipeline(hl.Pipeline(result), str(folder / "p.hlpipe"))
    return folder / "p.hlpipe"


def test_load_restores_estimates_of_outputs_without_a_sidecar(tmp_path: Path) -> None:
    shapes = output_shapes(load_pipeline(brightened(tmp_path)))
    assert [(shape.mins, shape.extents) for shape in shapes] == [((2, 0), (100, 50))] * 2


def test_what_halide_alone_has_read_is_verified(tmp_path: Path) -> None:
    file = str(brightened(tmp_path))
    pipeline = hl.deserialize_pipeline(file, hl.deserialize_parameters(file))
    assert autoschedule(pipeline, estimates={"source": [(2, 101), (0, 50)]}, verify=True).is_compared


def test_load_refuses_a_sidecar_of_another_version(planted, tmp_path: Path) -> None:
    save_pipeline(planted("blur").build(), tmp_path / "p.hlpipe")
    (tmp_path / "p.hlpipe.json").write_text('{"version": 99, "parameters": []}')
    with pytest.raises(MetolError, match="version 99"):
        load_pipeline(tmp_path / "p.hlpipe")
