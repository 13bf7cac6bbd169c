"""Where the steps of a Tuple's reduction go through memory: which loop nests, in the model and in Halide's code."""

import re
from collections import Counter
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import BARE_TARGET, X, finish, image, make_space, schedule_of

from metol import _core
from metol.pipeline import extract

ROLLOUTS = 600
MOST_LOWERED = 40
MOST_WRONG = 0.1


def nearest() -> hl.Pipeline:
    """Which of 20 values is the least, of each of many points."""
    distances, k = image(4096, 20, pixel=hl.Float(32)), hl.RDom([(0, 20)], "k")
    best, output = hl.Func("best"), hl.Func("output")
    best[X] = (hl.f32(1e9), 0)
    is_less = distances[X, k.x] < best[X][0]
    best[X] = (hl.select(is_less, distances[X, k.x], best[X][0]), hl.select(is_less, k.x, best[X][1]))
    output[X] = best[X][1]
    return finish(output, sizes=(4096,))


def stores_elsewhere(code: str) -> bool | None:
    """Is the first vector of `best` stored to a place that is not written as where it was loaded from?"""
    place = re.compile(r"best(?:\$\d+)?\.0\[ramp\((.*?), 1, \d+\)")
    value = next((line for line in code.splitlines() if "best" in line and ".s1" in line and ".0.value" in line), "")
    stored = re.search(r"best(?:\$\d+)?\.0\[ramp\((.*?), 1, \d+\)[^\]]*\] = best\S*\.0\.value", code)
    loaded = place.search(value.partition(" = ")[2])
    if stored is None or loaded is None:
        return None
    names = dict(re.findall(r"let (t\d+) = (.*)$", code, re.MULTILINE))
    return names.get(loaded[1], loaded[1]) != names.get(stored[1], stored[1])


@pytest.mark.slow
def test_which_tuples_are_stored_elsewhere_is_known(tmp_path: Path) -> None:
    dag = extract(nearest())
    space = make_space(dag, target=BARE_TARGET)
    best = next(number for number, func in enumerate(dag.funcs) if func.name.split("$")[0] == "best")
    update = dag.funcs[best].stages[1]
    column = list(space.feature_table()).index("spilled_steps")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen: Counter[tuple[bool, bool]] = Counter()
    for number in range(ROLLOUTS):
        leaf = leaves.take([number])
        schedule = leaf.describe()[best]
        nest = schedule.stages[1]
        if schedule.placement != _core.Placement.ROOT or nest.vector_width == 1 or seen.total() == MOST_LOWERED:
            continue
        pipeline, path = nearest(), tmp_path / "lowered.stmt"
        schedule_of(nearest, dag, leaf).apply(pipeline)
        arguments = pipeline.infer_arguments()
        target = hl.Target(BARE_TARGET + "-no_asserts-no_bounds_query")
        pipeline.compile_to_lowered_stmt(str(path), arguments, hl.StmtOutputFormat.Text, target)
        found = stores_elsewhere(path.read_text())
        if found is not None:
            seen[bool(space.featurize(leaf)[0][update][column] > 0), found] += 1
    assert seen[True, True] > 0 < seen[False, False]
    assert seen[True, False] + seen[False, True] <= MOST_WRONG * seen.total()
