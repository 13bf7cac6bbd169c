"""What the tuner measures next: who has a turn while trees grow."""

from measured import record_of
from small_pipelines import chain

from metol.options import SearchOptions
from metol.tune import Problem, TunerOptions
from metol.tune.standings import Standing, Standings
from metol.tune.tuner import Tuner

OPTIONS = SearchOptions(strategy="greedy", budget_seconds=None, trees=4, tree_iterations=8)


def test_trees_take_turns_with_descent_where_a_schedule_of_somebody_else_leads() -> None:
    standings = Standings()
    with Problem(chain(), options=OPTIONS, threads=2) as problem:
        tuner = Tuner(problem, TunerOptions(peers=("mullapudi2016",), trees=OPTIONS.monte_carlo), standings)
        own = tuner.seeds(problem.planner.search(), [], [])[0]
        ((peer, reason),) = tuner.peers(60.0, lambda: False)
        assert peer is not None, reason
        standings.add(Standing(own, record_of(own, 1.0), 1.0))
        standings.add(Standing(peer, record_of(peer, 2.0), 2.0))
        assert [{next_one.origin for next_one in tuner.next_batch(2, 0.1, [])} for _ in range(2)] == [{"trees"}] * 2
        standings.rescore(peer.schedule, 0.5)
        origins = [{next_one.origin for next_one in tuner.next_batch(2, 0.1, [])} for _ in range(3)]
    assert origins == [{"neighbour"}, {"trees"}, {"neighbour"}]
