"""Write the tables of features and cost terms of each target, from those that the core was compiled with, and of GPUs.

In: nothing. Out: two files a target, and one of GPUs, beside this one. The rows are those of `features.def` and
`terms.def` under `src/metol/targets`, so that names, units and meanings are typed once, and of
`targets/gpu/devices.py`.
"""

from collections.abc import Mapping
from pathlib import Path

import halide as hl

from metol import _core
from metol.pipeline import extract
from metol.targets.gpu import DEVICES

# Columns and terms that are those of the paper; they come first.
_PAPER_FEATURES = 39
_PAPER_TERMS = 27
# Those of the GPU: of Adams et al. 2019 first, then of Anderson et al. 2021.
_GPU_FIRST_FEATURES, _GPU_PAPER_FEATURES, _GPU_PAPER_TERMS = 27, 27 + 44, 29

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
Adams et al. 2019, appendix B, by the number of their coefficient; the rest are ours. The
coefficients are seconds that follow from the rates of the machine (`src/metol/targets/cpu/analytical.cpp`), corrected
by trained weights where there are any ([cost_model.md](cost_model.md)).

A name in an expression is a [feature](features.md) or one of these:

{quantities}
- `m(x)` = `max(x, 1)`
- `minimum(a, b)` is the lesser of the two
- `select(c, a, b)` = `a` where `c` holds, otherwise `b`

{table}"""


_GPU_FEATURES = """\
# Feature columns of the GPU

<!-- Written by docs/generate_tables.py (`make docs`) from src/metol/targets/gpu/features.def. -->

One row of these numbers describes one Stage, which is one kernel or a part of one; `Space.featurize` returns them as
`[B, S, F]`. Words are those of CUDA: a multiprocessor runs warps of threads in step, and a sector is the least that an
access brings in. Columns 0 to {first} are those of Adams et al. 2019, appendix A, that mean something on a GPU; columns
up to {last} those of Anderson et al. 2021, appendix A; the rest feed the terms of the analytical model.

{table}"""

_GPU_TERMS = """\
# Cost terms of the GPU

<!-- Written by docs/generate_tables.py (`make docs`) from src/metol/targets/gpu/terms.def. -->

The predicted run time is the sum over Stages and terms of a coefficient times the term. Terms 0 to {last} are those of
Anderson et al. 2021, appendix B, by the number of their coefficient, of which there is no 28; the two loads of memory,
which are printed without a coefficient, have numbers 23 and 27. Only weights that were trained on a GPU give them
coefficients. The rest are ours, and the analytical model: their coefficients are seconds at full occupancy, from the
data sheet of the GPU (`src/metol/targets/gpu/parameters.py`).

A name in an expression is a [feature](gpu_features.md), `multiprocessors`, or one of these:

{quantities}
- `m(x)` = `max(x, 1)`
- `select(c, a, b)` = `a` where `c` holds, otherwise `b`

{table}"""

_GPU_DEVICES = """\
# GPUs by name

<!-- Written by docs/generate_tables.py (`make docs`) from src/metol/targets/gpu/devices.py. -->

What `metol.autoschedule(pipeline, target="cuda", gpu=NAME)` and `metol schedule --target cuda --gpu NAME` schedule for;
case, hyphens, underscores and spaces in a name do not count. Without a name, the driver of this machine is asked what
its GPU is; where there is none, `rtx2080ti` counts, or the first of `a100` and `rtx3090` that has the compute
capability that the target states. Warps, blocks and shared memory are what one multiprocessor holds; how they follow
from the compute capability is in `src/metol/targets/gpu/compute_capability.py`. A block of Halide's has 48 KiB of
shared memory at most.

Naming a GPU adds its Halide feature to the target of the schedule: the code is made for that compute capability and
those above. So does the GPU of this machine for the target `cuda`; where there is neither, the code is for the oldest
GPUs. A target that states a capability, as `cuda-cuda_capability_75`, keeps it, and a GPU below it is refused.

{table}"""


def tables() -> dict[str, str]:
    """Return the text of each file by its name."""
    cpu, gpu = _smallest_space(_core.CpuParameters()), _smallest_space(_core.GpuParameters())
    return {
        "features.md": _FEATURES.format(last=_PAPER_FEATURES - 1, table=_features(cpu)),
        "cost_terms.md": _TERMS.format(last=_PAPER_TERMS - 1, quantities=_quantities(cpu), table=_terms(cpu)),
        "gpu_features.md": _GPU_FEATURES.format(
            first=_GPU_FIRST_FEATURES - 1, last=_GPU_PAPER_FEATURES - 1, table=_features(gpu)
        ),
        "gpu_cost_terms.md": _GPU_TERMS.format(
            last=_GPU_PAPER_TERMS - 1, quantities=_quantities(gpu), table=_terms(gpu)
        ),
        "gpu_devices.md": _GPU_DEVICES.format(table=_devices()),
    }


def _smallest_space(parameters: _core.MachineParameters) -> _core.Space:
    """Return the space of a pipeline of one Func: the tables belong to the target, but a Space is what shows them."""
    x = hl.Var("x")
    func = hl.Func("func")
    func[x] = x
    func.set_estimates([(0, 64)])
    return _core.Space(extract(func), parameters, _core.SpaceOptions(), 1)


def _features(space: _core.Space) -> str:
    return _table(("unit", "meaning"), space.feature_table())


def _terms(space: _core.Space) -> str:
    rows = {name: (f"`{expression}`", meaning) for name, (expression, meaning) in space.term_table().items()}
    return _table(("expression", "meaning"), rows)


def _quantities(space: _core.Space) -> str:
    return "\n".join(
        f"- `{name}` = `{expression}`: {meaning}" for name, (expression, meaning) in space.quantity_table().items()
    )


def _devices() -> str:
    lines = [
        "| | name | GPU | capability | Halide feature | multiprocessors | GHz | GB/s | L2, KiB | warps | blocks "
        "| shared, KiB |",
        "|--:|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for number, (name, device) in enumerate(DEVICES.items()):
        limits = device.capability
        cells = (
            f"`{name}`",
            device.title,
            str(limits),
            f"`{limits.halide_feature}`",
            "cores" if device.multiprocessors is None else str(device.multiprocessors),
            f"{device.clock_hz / 1e9:.4g}",
            f"{device.memory_bytes_per_second / 1e9:.4g}",
            str(device.l2_bytes // 1024),
            str(limits.max_warps_per_multiprocessor),
            str(limits.max_blocks_per_multiprocessor),
            str(limits.shared_bytes_per_multiprocessor // 1024),
        )
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table(columns: tuple[str, str], rows: Mapping[str, tuple[str, str]]) -> str:
    lines = [f"| | name | {columns[0]} | {columns[1]} |", "|--:|---|---|---|"]
    lines += [
        f"| {number} | `{name}` | {first} | {last} |" for number, (name, (first, last)) in enumerate(rows.items())
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, text in tables().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
