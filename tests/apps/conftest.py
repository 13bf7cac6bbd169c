"""Runs apps with every Func at root, the one schedule that is right and quick to compile for any of them."""

import halide as hl
import numpy as np
import pytest

from metol_apps import App, Inputs, Shape
from metol_apps.app import Array


def _all_funcs(pipeline: hl.Pipeline) -> list[hl.Func]:
    """Return every Func, producers first, without the wrappers of the ImageParams."""
    wrappers = {f"{argument.name}_im" for argument in pipeline.infer_arguments()}
    output = pipeline.outputs()[0].name()
    funcs = [pipeline.get_func(0)]
    while funcs[-1].name() != output:
        funcs.append(pipeline.get_func(len(funcs)))
    return [func for func in funcs if func.name().split("$")[0] not in wrappers]


class _Program:
    """A scheduled pipeline, compiled."""

    def __init__(self, pipeline: hl.Pipeline, target: str = "host") -> None:
        arguments = [argument for argument in pipeline.infer_arguments() if argument.name]
        self._names = [argument.name for argument in arguments]
        self._callable = pipeline.compile_to_callable(arguments, hl.Target(target))

    def run(self, inputs: Inputs, output: Array) -> Array:
        """Fill `output` from inputs found by parameter name, and return it."""
        values = [inputs[name] for name in self._names]
        buffer = hl.Buffer(output)
        self._callable(*(hl.Buffer(v) if isinstance(v, np.ndarray) else v for v in values), buffer)
        buffer.copy_to_host()
        return output


def _compile_at_root(pipeline: hl.Pipeline) -> _Program:
    """Compile with every Func at root; without a schedule, all would be inlined into the output."""
    for func in _all_funcs(pipeline):
        func.compute_root()
    return _Program(pipeline)


@pytest.fixture(scope="session")
def compile_at_root():
    """Give a function from a pipeline to an object whose `run(inputs, output)` runs it."""
    return _compile_at_root


@pytest.fixture(scope="session")
def computes_reference():
    """Run the scheduled pipeline of an app at a shape, and compare with its reference."""

    def computes_reference(app: App, pipeline: hl.Pipeline, shape: Shape, target: str = "host") -> bool:
        inputs = app.inputs(shape, seed=1)
        output = _Program(pipeline, target).run(inputs, app.empty_output(shape))
        return app.tolerance.accepts(output, app.reference(inputs))

    return computes_reference


@pytest.fixture(scope="session")
def all_funcs():
    """Give a function from a pipeline to its Funcs, producers first, without the wrappers of the ImageParams."""
    return _all_funcs


@pytest.fixture(scope="session")
def realize():
    """Compute the output of an app at a shape; each app is compiled once a session."""
    programs: dict[str, _Program] = {}

    def realize(app: App, output_shape: Shape, inputs: Inputs) -> Array:
        if app.name not in programs:
            programs[app.name] = _compile_at_root(app.build())
        return programs[app.name].run(inputs, app.empty_output(output_shape))

    return realize
