"""The analytical model: what is done at once costs less than one after the other, and more than the dearer alone."""

import numpy as np
import pytest
from small_pipelines import blur, make_space

from metol import _core
from metol.pipeline import extract

STAGE = 1
BYTES = 1e6


def seconds(space: _core.Space, **features: float) -> float:
    """Return what a row with these features costs, in all other things a serial loop nest that does nothing."""
    names = list(space.feature_table())
    row = np.zeros(len(names), np.float32)
    for name, value in features.items():
        row[names.index(name)] = value
    return float(np.dot(space.analytical_coefficients(STAGE, row), space.terms(row)))


@pytest.mark.parametrize("traffic", ["bytes_into_l3", "bytes_written_beyond_l3", "bytes_written_beyond_l2"])
def test_memory_traffic_hides_behind_arithmetic(traffic: str) -> None:
    space = make_space(extract(blur()))
    moving = seconds(space, **{traffic: BYTES})
    assert moving > 0
    little, much = ({"num_vectors": count, "vector_size": 16.0} for count in (1.0, 1e9))
    for work in (little, much):
        alone, both = seconds(space, **work), seconds(space, **work, **{traffic: BYTES})
        assert max(alone, moving) < both < alone + moving
    hidden = seconds(space, **much) + moving - seconds(space, **much, **{traffic: BYTES})
    assert hidden == pytest.approx(0.6 * moving, rel=1e-3)


def test_memory_traffic_of_a_copy_is_seen_in_full() -> None:
    space = make_space(extract(blur()))
    once, twice = (seconds(space, bytes_into_l3=count * BYTES) for count in (1, 2))
    assert twice == pytest.approx(2 * once)


def test_loads_and_traffic_hide_behind_arithmetic_of_what_is_inlined() -> None:
    space = make_space(extract(blur()))
    loads = {"num_vectors": 1e3, "vector_size": 16.0, "vector_loads_per_vector": 8e3}
    for hidden, share in ((loads, 0.7), ({"bytes_into_l3": BYTES}, 0.6)):
        alone = seconds(space, **hidden)
        # The arithmetic itself is counted with what is inlined.
        beside = seconds(space, **hidden, inlined_compute=1e9)
        own = seconds(space, **{**hidden, "vector_loads_per_vector": 0.0}) if "num_vectors" in hidden else 0.0
        assert alone - beside == pytest.approx(share * (alone - own), rel=0.05)


def test_gathers_do_not_hide_behind_arithmetic_of_what_is_inlined() -> None:
    space = make_space(extract(blur()))
    gathers = {"num_vectors": 1e6, "vector_size": 16.0, "scalar_loads_per_vector": 16.0}
    assert seconds(space, **gathers, inlined_compute=1e9) == pytest.approx(seconds(space, **gathers))
