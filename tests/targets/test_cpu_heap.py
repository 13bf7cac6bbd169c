"""Which Funcs in tiles Halide allocates on the heap: what the model takes for so is, mostly."""

from collections import Counter
from pathlib import Path

import pytest
from allocated import allocated_on_heap
from small_pipelines import PIPELINES, make_space, schedule_with

from metol import _core
from metol.lower import LoweringOptions, cpu_directives
from metol.pipeline import extract

TARGET = "x86-64-linux-avx-avx2-avx512-avx512_skylake-f16c-fma-sse41"
ROLLOUTS = 120
MOST_LOWERED = 30
MOST_WRONG = 0.2


@pytest.mark.slow
def test_what_is_allocated_on_the_heap_is_known_for_sizes_that_are_fixed(tmp_path: Path) -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    for name in ("blur", "chain", "convolution", "boundary", "matmul", "where", "scan"):
        build = PIPELINES[name]
        dag = extract(build())
        options = _core.SpaceOptions()
        options.has_fixed_sizes = True
        space = make_space(dag, target=TARGET, options=options)
        column = list(space.feature_table()).index("heap_allocations")
        leaves = space.rollout(space.root(), range(ROLLOUTS))
        lowered = 0
        for i in range(ROLLOUTS):
            leaf = leaves.take([i])
            inside = [
                schedule.func
                for schedule in leaf.describe()
                if schedule.placement == _core.Placement.AT and schedule.storage == _core.Storage.PLAIN
            ]
            if not inside or lowered == MOST_LOWERED:
                continue
            lowered += 1
            (rows,) = space.featurize(leaf)
            sizes = [side.extent for side in dag.funcs[dag.outputs[0]].root_region]
            schedule = schedule_with(build, cpu_directives(dag, leaf.describe(), LoweringOptions(fixed_sizes=True)))
            on_heap = allocated_on_heap(build(), schedule, tmp_path / "lowered.stmt", sizes=sizes, target=TARGET)
            for func in inside:
                own = dag.funcs[func].name.split("$")[0]
                if own in on_heap:
                    seen[bool(rows[dag.funcs[func].stages[0]][column] > 0), on_heap[own]] += 1
    assert seen[True, True] > 0 < seen[False, False]
    assert seen[True, False] + seen[False, True] <= MOST_WRONG * seen.total()
