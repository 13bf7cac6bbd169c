"""Write `features.md` and `cost_terms.md` from the tables that the core was compiled with.

In: nothing. Out: two files beside this one. The rows are those of `features.def` and `terms.def` under
`src/metol/targets/cpu`, so that names, units and meanings are typed once.
"""

from collections.abc import Mapping
from pathlib import Path

import halide as hl

from metol import _core
from metol.pipeline import extract

# Columns and terms that are those of the paper; they come first.
_PAPER_FEATURES = 39
_PAPER_TERMS = 27

_FEATURES = """\
# Feature columns of the CPU

<!-- Written by docs/generate_tables.py (`make docs`) from src/metol/targets/cpu/features.def. -->

One row of these numbers describes one Stage of a loop nest; `Space.featurize` returns them as `[B, S, F]`. Columns 0 to
{last} are those of Adams et al. 2019, appendix A, in its order; the rest feed the terms that appendix B lacks.

{table}"""

_TERMS = """\
# Cost terms of the CPU

<!-- Written by docs/generate_tables.py (`make docs`) from src/metol/targets/cpu/terms.def. -->

The predicted run time is the sum over Stages and terms of a coefficient times the term. Terms 0 to {last} are those of
Adams et al. 2019, appendix B, by the number of their coefficient; the rest are ours. Until weights are trained, the
coefficients are seconds that follow from the rates of the machine (`src/metol/targets/cpu/analytical.cpp`).

A name in an expression is a [feature](features.md) or one of these:

{quantities}
- `m(x)` = `max(x, 1)`
- `minimum(a, b)` is the lesser of the two
- `select(c, a, b)` = `a` where `c` holds, otherwise `b`

{table}"""


def tables() -> dict[str, str]:
    """Return the text of each file by its name."""
    space = _smallest_space()
    features = _table(("unit", "meaning"), space.feature_table())
    terms = _table(
        ("expression", "meaning"),
        {name: (f"`{expression}`", meaning) for name, (expression, meaning) in space.term_table().items()},
    )
    quantities = "\n".join(
        f"- `{name}` = `{expression}`: {meaning}" for name, (expression, meaning) in space.quantity_table().items()
    )
    return {
        "features.md": _FEATURES.format(last=_PAPER_FEATURES - 1, table=features),
        "cost_terms.md": _TERMS.format(last=_PAPER_TERMS - 1, quantities=quantities, table=terms),
    }


def _smallest_space() -> _core.Space:
    """Return the space of a pipeline of one Func: the tables belong to the target, but a Space is what shows them."""
    x = hl.Var("x")
    func = hl.Func("func")
    func[x] = x
    func.set_estimates([(0, 64)])
    return _core.Space(extract(func), _core.CpuParameters(), _core.SpaceOptions(), 1)


def _table(columns: tuple[str, str], rows: Mapping[str, tuple[str, str]]) -> str:
    lines = [f"| | name | {columns[0]} | {columns[1]} |", "|--:|---|---|---|"]
    lines += [
        f"| {number} | `{name}` | {first} | {last} |" for number, (name, (first, last)) in enumerate(rows.items())
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, text in tables().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
