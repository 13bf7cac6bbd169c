"""Writes a schedule as a Python module that makes the same calls without Metol.

Enters: a schedule. Leaves: the text of a module with one function over a `hl.Pipeline`, laid out as a person would:
the Funcs, the loops, then one chain of calls a Stage.
"""

import builtins
import itertools
import json
import keyword

from metol.lower.directive import RVar
from metol.lower.schedule_data import ScheduleData
from metol.lower.source import Block, Chain, Language, header_lines, outline

__all__ = ["emit_python"]

_LINE_LENGTH = 88  # what most Python code is wrapped at


def emit_python(schedule: ScheduleData, function_name: str) -> str:
    """Return the source of a module with the function `function_name(pipeline)`."""
    language = Language(
        qualify=lambda *names: ".".join(("hl", *names)),
        all_of=lambda conditions: conditions[0] if len(conditions) == 1 else " & ".join(f"({c})" for c in conditions),
        listed=lambda loops: f"[{', '.join(loops)}]",
        pairs=lambda pairs: "[" + ", ".join(f"({rvar}, {var})" for rvar, var in pairs) + "]",
        method=lambda call: call.python_method,
        reserved=frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins)),
    )
    parts = outline(schedule, language, taken=("hl", "pipeline", "count", "count_funcs", function_name))
    count = len(schedule.funcs)
    lines = [*(f"# {line}" for line in header_lines(schedule)), "import halide as hl", "", "", *_COUNT_FUNCS, "", ""]
    lines += [
        f"def {function_name}(pipeline: hl.Pipeline) -> None:",
        f'    """Schedule a pipeline of {count} Funcs that has no schedule yet."""',
        "    count = count_funcs(pipeline)",
        f"    if count != {count}:",
        f'        raise ValueError(f"this schedule is for a pipeline of {count} Funcs, not {{count}}")',
    ]
    lines += [f"    {name} = pipeline.get_func({index})" for name, index in parts.funcs]
    lines += [
        f"    {name} = hl.{'RVar' if isinstance(loop, RVar) else 'Var'}({_quote(loop.name)})"
        for name, loop in parts.new_loops
    ]
    lines += [f"    {lookup.name} = {lookup.expression}" for lookup in parts.lookups]
    for block in parts.blocks:
        lines += ["", *(f"    {line}" for line in _write_block(block))]
    return "\n".join(lines) + "\n"


_COUNT_FUNCS = '''def count_funcs(pipeline: hl.Pipeline) -> int:
    """Return how many Funcs the pipeline has; Halide tells by refusing the next one."""
    count = 0
    while True:
        try:
            pipeline.get_func(count)
        except hl.HalideError:
            return count
        count += 1'''.splitlines()


def _quote(text: str) -> str:
    """Return a string literal in double quotes: Python reads what JSON has."""
    return json.dumps(text, ensure_ascii=False)


def _write_block(block: Block) -> list[str]:
    lines = []
    for source, group in itertools.groupby(block.ordered_lookups(), key=lambda lookup: lookup.source):
        same = list(group)
        if len(same) == same[0].count > 1:
            lines.append(f"{', '.join(lookup.name for lookup in same)} = {source}")
        else:
            lines += [f"{lookup.name} = {lookup.expression}" for lookup in same]
    for chain in block.chains:
        lines += _write_chain(chain)
    return lines


def _write_chain(chain: Chain) -> list[str]:
    assignment = f"{chain.result} = " if chain.result else ""
    first, *others = chain.lines(_LINE_LENGTH - 4 - len(assignment))
    if others and others[0].startswith("    ."):  # Python takes a chain over several lines in parentheses only
        return [f"{assignment}(", f"    {first}{others[0].strip()}", *others[1:], ")"]
    return [assignment + first, *others]
