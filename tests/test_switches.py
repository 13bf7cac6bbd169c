from dataclasses import fields

from metol import SearchOptions
from metol.switches import switches


def test_every_yes_or_no_option_is_a_switch_that_is_told() -> None:
    found = switches()
    every = [f.name for f in fields(SearchOptions) if f.type in (bool, bool | None)]
    assert [switch.name for switch in found] == every
    assert {"sliding", "sampling", "freezing"} < set(every)
    for switch in found:
        assert switch.is_on is bool(getattr(SearchOptions(), switch.name))
        assert len(switch.meaning) > 10, f"the field `{switch.name}` needs a docstring"
        assert not switch.meaning.endswith(".")


def test_meaning_is_the_first_clause_of_the_docstring() -> None:
    told = {switch.name: switch.meaning for switch in switches()}
    assert told["storage"] == "storage may lie on the stack or be allocated once a task"
    assert told["fixed_sizes"] == "outputs will always have exactly their estimated size"


def test_turning_a_switch_changes_nothing_else() -> None:
    for switch in switches():
        turned = switch.turned()
        differing = [
            f.name for f in fields(SearchOptions) if getattr(turned, f.name) != getattr(SearchOptions(), f.name)
        ]
        assert differing == [switch.name]
        assert str(switch) == f"{switch.name}={getattr(turned, switch.name)}"
        assert not turned.lowering.unsafe_tails  # no option gets at what only measurements may ask for
