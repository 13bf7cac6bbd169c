"""Writes a schedule as a C++ header that makes the same calls without Metol.

Enters: a schedule. Leaves: the text of a header with one inline function over a `Halide::Pipeline`, which compiles
without warnings as C++17 against Halide.h alone.
"""

import json
import re

from metol.lower.cpp_words import CPP_WORDS
from metol.lower.directive import RVar
from metol.lower.schedule_data import ScheduleData
from metol.lower.source import Block, Chain, Language, header_lines, outline

__all__ = ["emit_cpp"]

_LINE_LENGTH = 100


def emit_cpp(schedule: ScheduleData, function_name: str) -> str:
    """Return the source of a header with the function `function_name(Halide::Pipeline)`."""
    language = Language(
        qualify=lambda *names: "::".join(("Halide", *names)),
        all_of=" && ".join,
        listed=", ".join,  # C++ takes them one by one, too
        pairs=lambda pairs: "{" + ", ".join(f"{{{rvar}, {var}}}" for rvar, var in pairs) + "}",
        method=lambda call: call.method,
        reserved=CPP_WORDS,
    )
    parts = outline(schedule, language, taken=("pipeline", "outputs", "output", "count", function_name))
    lines = [
        *(f"// {_comment(line)}" for line in header_lines(schedule)),
        "#pragma once",
        "",
        '#include "Halide.h"',
        "",
    ]
    lines += ["#include <vector>", "", f"inline void {function_name}(Halide::Pipeline pipeline) {{"]
    lines += _check_count(len(schedule.funcs))
    lines += [f"    Halide::Func {name} = pipeline.get_func({index});" for name, index in parts.funcs]
    lines += [f"    Halide::Func {name};" for name in parts.made_funcs]
    for name, loop in parts.new_loops:
        kind = "RVar" if isinstance(loop, RVar) else "Var"
        lines.append(f"    Halide::{kind} {name}({json.dumps(loop.name, ensure_ascii=False)});")
    lines += [f"    Halide::{lookup.kind} {lookup.name} = {lookup.expression};" for lookup in parts.lookups]
    for block in parts.blocks:
        lines += [
            "",
            f"    {{  // {_comment(block.title)}",
            *(f"        {line}" for line in _write_block(block)),
            "    }",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def _comment(text: str) -> str:
    """Return what a comment of one line may hold: it ends with the line, unless that ends with a backslash."""
    line = re.sub(r"\s+", " ", text)
    return f"{line}." if line.endswith("\\") else line


def _check_count(count: int) -> list[str]:
    return [
        "    std::vector<Halide::Internal::Function> outputs;",
        "    for (const Halide::Func &output : pipeline.outputs()) {",
        "        outputs.push_back(output.function());",
        "    }",
        "    const size_t count = Halide::Internal::build_environment(outputs).size();",
        f"    _halide_user_assert(count == {count})",
        f'        << "this schedule is for a pipeline of {count} Funcs, not " << count << "\\n";',
    ]


def _write_block(block: Block) -> list[str]:
    lines = [f"Halide::{lookup.kind} {lookup.name} = {lookup.expression};" for lookup in block.ordered_lookups()]
    for chain in block.chains:
        lines += _write_chain(chain)
    return lines


def _write_chain(chain: Chain) -> list[str]:
    declaration = "Halide::Stage " if chain.result_kind == "Stage" else ""
    assignment = f"{declaration}{chain.result} = " if chain.result else ""
    first, *others = chain.lines(_LINE_LENGTH - 8 - len(assignment))
    lines = [assignment + first, *others]
    return [*lines[:-1], lines[-1] + ";"]
