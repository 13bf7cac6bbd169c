"""The Python evaluator of the cost terms against the core's."""

import numpy as np
import pytest
from small_pipelines import make_gpu_space, make_space

import metol_apps
from metol import _core
from metol.cost import CostTerms, explain
from metol.pipeline import PipelineDag, extract

APPS = ("harris", "hist", "matmul", "bilateral_grid")
CORES = 2


@pytest.fixture(scope="module", params=[f"{target}-{name}" for target in ("cpu", "gpu") for name in APPS])
def app(request: pytest.FixtureRequest) -> tuple[PipelineDag, _core.Space]:
    target, _, name = request.param.partition("-")
    dag = extract(metol_apps.get(name).build())
    return dag, make_space(dag, cores=CORES) if target == "cpu" else make_gpu_space(dag)


def leaves_of(space: _core.Space, count: int = 12) -> _core.States:
    return space.rollout(space.root(), range(count))


def test_terms_agree_with_the_core(app: tuple[PipelineDag, _core.Space]) -> None:
    _, space = app
    rows = space.featurize(leaves_of(space))
    terms = CostTerms.of(space).evaluate(rows.astype(np.float64))
    expected = np.array([[space.terms(row) for row in state] for state in rows])
    assert terms.shape == (*rows.shape[:-1], len(space.term_table()))
    np.testing.assert_allclose(terms, expected, rtol=1e-6)


def test_terms_times_coefficients_are_the_cost(app: tuple[PipelineDag, _core.Space]) -> None:
    _, space = app
    leaves = leaves_of(space)
    rows = space.featurize(leaves)
    terms = CostTerms.of(space).evaluate(rows.astype(np.float64))
    coefficients = np.array([[space.analytical_coefficients(s, row) for s, row in enumerate(state)] for state in rows])
    is_there = rows.any(axis=-1)
    seconds = np.where(is_there[..., None], terms * coefficients, 0).sum(axis=(-1, -2))
    np.testing.assert_allclose(seconds, space.cost(leaves, _core.CostModel()), rtol=1e-6)


def test_terms_take_any_leading_shape(app: tuple[PipelineDag, _core.Space]) -> None:
    _, space = app
    rows = space.featurize(leaves_of(space, 2))
    terms = CostTerms.of(space)
    whole = terms.evaluate(rows)
    np.testing.assert_array_equal(terms.evaluate(rows[1, 0]), whole[1, 0])
    with pytest.raises(ValueError, match="columns"):
        terms.evaluate(rows[..., 1:])


def test_given_coefficients_replace_the_analytical_ones(app: tuple[PipelineDag, _core.Space]) -> None:
    _, space = app
    leaves = leaves_of(space, 6)
    rows = space.featurize(leaves)
    terms = CostTerms.of(space).evaluate(rows.astype(np.float64))
    coefficients = np.random.default_rng(0).random(terms.shape[1:])
    seconds = np.where(rows.any(axis=-1)[..., None], terms * coefficients, 0).sum(axis=(-1, -2))
    model = _core.CostModel(1, coefficients.ravel().tolist())
    np.testing.assert_allclose(space.cost(leaves, model), seconds, rtol=1e-6)


def test_explain_lists_stages_by_cost(app: tuple[PipelineDag, _core.Space]) -> None:
    dag, space = app
    leaf = leaves_of(space, 1)
    stages = explain(dag, space, leaf, largest=2)
    seconds = [stage.seconds for stage in stages]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) == pytest.approx(space.cost(leaf, _core.CostModel())[0], rel=1e-6)
    assert all(len(stage.terms) <= 2 and stage.terms[0].seconds <= stage.seconds for stage in stages)
    assert stages[0].func in str(stages[0])
