"""What every app keeps: estimates, readable names, inputs by parameter name, and the result of its reference."""

import re

import numpy as np
import pytest
from slow_cases import slow_but

import metol_apps

SUITE = [metol_apps.get(name) for name in metol_apps.names("full")]
# Other sizes of these, and parts of networks, are much like them.
APPS = SUITE + [metol_apps.get(name) for name in metol_apps.variants() + metol_apps.network()]
# Parts of a network that differ from others in their numbers.
LIKE_OTHERS = [app for app in APPS if re.match(r"resnet50_conv[245]", app.name)]
# Their many Funcs take LLVM seconds.
LONG = {"local_laplacian", "interpolate", "lens_blur", "stencil_chain", "bgu", "learned_demosaic", "camera_pipe"}


@pytest.fixture(params=slow_but(SUITE, APPS), ids=[app.name for app in APPS])
def app(request):
    return request.param


@pytest.mark.parametrize(
    "app",
    slow_but([app for app in SUITE if app.name not in LONG], APPS, further=LIKE_OTHERS),
    ids=[one.name for one in APPS],
)
def test_app_matches_its_reference_at_two_shapes_and_notices_other_inputs(app, realize):
    # One test, which workers that share the tests do not compile twice.
    references = {}
    for seed, shape in ((1, app.small_output_shape), (2, (*app.small_output_shape[:-2], 19, 130))):
        inputs = app.inputs(shape, seed=seed)
        references[seed] = app.reference(inputs)
        assert app.tolerance.accepts(realize(app, shape, inputs), references[seed]), shape
    assert not app.tolerance.accepts(references[1], app.reference(app.inputs(app.small_output_shape, seed=2)))


def test_app_reference_and_empty_output_have_the_output_type_and_shape(app):
    reference = app.reference(app.inputs(app.small_output_shape))
    empty = app.empty_output(app.small_output_shape)
    assert (reference.shape, reference.dtype) == (empty.shape, empty.dtype)
    assert (empty.shape, empty.dtype) == (app.small_output_shape, app.output_type)


def test_app_inputs_are_the_parameters_of_the_pipeline(app):
    arguments = [argument for argument in app.build().infer_arguments() if argument.name]
    assert {argument.name for argument in arguments} == set(app.inputs(app.small_output_shape))


@pytest.mark.slow
def test_app_inputs_have_the_estimated_sizes(app):
    inputs = app.inputs()
    for argument in app.build().infer_arguments():
        ranges = argument.argument_estimates.buffer_estimates
        if not ranges:
            assert argument.argument_estimates.scalar_estimate.defined()
            continue
        assert [constant(r.min) for r in ranges] == [0] * len(ranges)
        assert tuple(constant(r.extent) for r in reversed(ranges)) == inputs[argument.name].shape


def test_app_inputs_depend_on_the_seed_alone(app):
    same, again, other = (app.inputs(app.small_output_shape, seed=seed) for seed in (5, 5, 6))
    for name, value in same.items():
        assert np.array_equal(value, again[name])
        assert not isinstance(value, np.ndarray) or not np.array_equal(value, other[name])


def test_app_builds_afresh_under_the_same_names(app, all_funcs):
    first, second = all_funcs(app.build()), all_funcs(app.build())
    assert [base_name(func) for func in first] == [base_name(func) for func in second]
    assert not {func.name() for func in first} & {func.name() for func in second}


def test_app_gives_every_func_a_readable_name_of_its_own(app, all_funcs):
    names = [base_name(func) for func in all_funcs(app.build())]
    assert names[-1] == app.name
    assert len(set(names)) == len(names)
    assert not [name for name in names if re.fullmatch(r"f\d+|lambda_\d+", name)]


def base_name(func) -> str:
    """Return the name that the builder gave, without the suffix that makes it unique in this process."""
    return func.name().split("$")[0]


def constant(expression) -> int:
    """Return the value of a constant Expr, which Python can only print."""
    return int(re.search(r": (-?\d+)>", str(expression)).group(1))
