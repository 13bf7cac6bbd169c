"""Whether a schedule may be returned: Halide lowers it, and it asks of no buffer more than the reference does.

Enters: a recipe of the pipeline, and schedules. Leaves: a reason for each refusal. Nothing is compiled. The bounds
query at the head of the lowered code is evaluated, with inputs of exactly the size that everything at root needs: a
tail that rounds up, or shifts inwards, where there is less than it takes shows as a region that grows beyond them. And
the first and last iterations of the loops are gone through: a guard that Halide left out shows as an access outside.
Kernels are held to what a block of threads may have, as their launches ask for it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from metol.errors import MetolError
from metol.lower import Call, RVar, Schedule, Var
from metol.measure.at_root import schedule_at_root
from metol.pipeline import LoweredPipeline, base_name, strip_schedules

if TYPE_CHECKING:
    from metol.measure.block_limits import BlockLimits

__all__ = ["BufferSizes", "Gate", "probed_sizes", "split_factors"]

# How many times as large as estimated outputs are that kernels must be launched for, too.
_GROWTH = 2
# Queries after which an output is as large as its own answer wants it; an algorithm that wants ever more is refused.
_MOST_ROUNDS = 4

Region = tuple[tuple[int, int], ...]  # (min, extent) of each dimension
Probe = tuple[Region, ...]  # one region an output


@dataclass(frozen=True, slots=True)
class BufferSizes:
    """The sizes that the schedules of one pipeline are made for."""

    outputs: tuple[Region, ...]
    """In the order of the outputs."""
    inputs: Mapping[str, Region]
    """By name, without `$n`."""
    scalars: Mapping[str, float]
    """Parameters by name."""

    def regions(self, outputs: Sequence[str], names: Iterable[str]) -> dict[str, Region]:
        """Return the estimated sizes by the names that buffers have in lowered code, as far as they are known.

        Args:
            outputs: Names of the Funcs that are the outputs.
            names: Those of all buffers.
        """
        if not self.outputs:
            return {}
        names = list(names)
        places = _output_places(outputs, names)
        known = {name: self.input_region(name) for name in names if name not in places}
        inputs = {name: region for name, region in known.items() if region is not None}
        return {name: self.outputs[place] for name, place in places.items()} | inputs

    def input_region(self, name: str) -> Region | None:
        """Return the estimated size of an input; Halide calls the Func that stands for image `a` `a_im`."""
        base = base_name(name)
        return self.inputs.get(base, self.inputs.get(f"{base}_im"))

    def to_json(self) -> str:
        """Return the sizes as one line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "BufferSizes":
        """Read what `to_json` wrote."""
        content = json.loads(text)
        return BufferSizes(
            tuple(_region(sides) for sides in content["outputs"]),
            {name: _region(sides) for name, sides in content["inputs"].items()},
            content["scalars"],
        )


def probed_sizes(schedule: Schedule, sizes: BufferSizes) -> tuple[Probe, ...]:
    """Choose the output sizes at which a schedule could ask for too much.

    Returns:
        The estimated size; one point; one less and one more than the smallest and the largest factor that any loop
        over that dimension is split by, which are the vector and the tile; one more than the tile on one side, and
        less than a vector on the others, for which the version for whole tiles is not taken; and one more than the
        smallest and the largest factor of a reduction loop, for where `k <= y` ends it, Halide asks for whole blocks
        of `k`. All as far as the estimated size has as many: what three channels are meant for need not work for five.
        Nothing where no sizes are known, and the estimated size alone where the schedule is for no other.
    """
    if not sizes.outputs:
        return ()
    if schedule.has_fixed_sizes:
        return (sizes.outputs,)
    factors = split_factors(schedule)
    probes = [sizes.outputs, tuple(tuple((low, 1) for low, _ in region) for region in sizes.outputs)]

    def probe(points: Mapping[int, int]) -> Probe:
        """Outputs of so many points along each dimension, as far as they are estimated to have as many."""
        return tuple(
            tuple((low, min(extent, max(1, points.get(d, extent)))) for d, (low, extent) in enumerate(region))
            for region in sizes.outputs
        )

    for choose, step in product((min, max), (-1, 1)):
        probes.append(probe({d: choose(own) + step for d, own in factors.items()}))
    for longest in factors if len(factors) > 1 else ():
        probes.append(probe({d: max(own) + 1 if d == longest else min(own) - 1 for d, own in factors.items()}))
    blocks = _reduction_factors(schedule)
    for block in {min(blocks), max(blocks)} if blocks else ():
        probes.append(tuple(tuple((low, min(extent, block + 1)) for low, extent in region) for region in sizes.outputs))
    return tuple(dict.fromkeys(probes))


class Gate:
    """Judges schedules of one pipeline."""

    def __init__(
        self, build: Callable[[], Any], sizes: BufferSizes, target: str, limits: "BlockLimits | None" = None
    ) -> None:
        """Take a recipe.

        Args:
            build: returns the pipeline afresh, with the schedule it was written with and the same names each time.
            sizes: what the schedules are made for.
            target: the Halide target to lower for.
            limits: what a block of threads may have on the GPU that they are for; None for a CPU.
        """
        self._build = build
        self._sizes = sizes
        self._target = target
        self._limits = limits
        self._plain: dict[tuple[tuple[int, ...], bool], LoweredPipeline | None] = {}

    def prepare(self) -> None:
        """Lower the reference before there is a schedule to compare with it; `refusal` does so where this was not."""
        self._reference(())

    def refusal(self, schedule: Schedule) -> str:
        """Tell why a schedule is refused, or "" where it is not."""
        kept = tuple(keep.func for keep in schedule.kept)
        pipeline = self._build()
        strip_schedules(pipeline, kept)
        try:
            schedule.apply(pipeline)
            lowered = LoweredPipeline(pipeline, self._target, has_partitions=True)
        except MetolError as error:
            return " ".join(str(error).split())
        if unfit := lowered.unfit_load():
            return f"Halide makes no code of a masked load of `{base_name(unfit)}` from its end on"
        outputs = [func.name() for func in pipeline.outputs()]
        if excess := self._excess(lowered, outputs, may_grow=not schedule.has_fixed_sizes):
            return excess
        reference = self._reference(kept)
        if reference is None:
            return ""
        grown = self._growth(lowered, reference, outputs, probed_sizes(schedule, self._sizes))
        return grown or self._growth_of_estimates(lowered, kept, outputs)

    def shortage(self, inputs: Mapping[str, Region], scalars: Mapping[str, float]) -> str:
        """Tell which of these inputs has less than outputs of the estimated size need, or "" where none has.

        Args:
            inputs: Where some inputs begin, and how large they are, by name.
            scalars: Values of some parameters, by name.
        """
        reference = self._reference((), is_at_root=False)
        if reference is None:
            return ""
        names = list(reference.required({}, {}))
        given = {name: inputs[base_name(name)] for name in names if base_name(name) in inputs}
        outputs = [func.name() for func in self._build().outputs()]
        needs = reference.required({**self._sizes.regions(outputs, names), **given}, {**self._sizes.scalars, **scalars})
        for name, d, side, (low, extent) in _outside(needs, given):
            if side is not None:
                return (
                    f"Input `{base_name(name)}` goes from {low} to {low + extent - 1} in dimension {d}, and outputs of "
                    f"the estimated size {_size_text(self._sizes.outputs)} need {side.min} to {side.max}"
                )
        return ""

    def _excess(self, lowered: LoweredPipeline, outputs: list[str], *, may_grow: bool) -> str:
        """Tell which kernel asks for more than a block may have, at the sizes that the schedule is for or larger ones.

        Where an output is estimated to be shorter than a block, a larger one fills more of it.
        """
        if self._limits is None:
            return ""
        names = list(lowered.required({}, {}))
        regions = self._sizes.regions(outputs, names)
        told = self._limits.refusal(lowered.launches(regions, self._sizes.scalars))
        if told or not may_grow:
            return told
        places = _output_places(outputs, names)
        grown = {
            name: tuple((low, _GROWTH * extent + 1) for low, extent in sides) if name in places else sides
            for name, sides in regions.items()
        }
        told = self._limits.refusal(lowered.launches(grown, self._sizes.scalars))
        return f"for outputs {_GROWTH} times as large, {told}" if told else ""

    def _reference(self, kept: tuple[int, ...], *, is_at_root: bool = True) -> LoweredPipeline | None:
        """Lower everything at root, or inline, but the Funcs that keep their schedule; None where that is refused."""
        key = kept, is_at_root
        if key not in self._plain:
            pipeline = self._build()
            strip_schedules(pipeline, kept)
            if is_at_root:
                schedule_at_root(pipeline, kept)
            try:
                self._plain[key] = LoweredPipeline(pipeline, self._target)
            except MetolError:
                self._plain[key] = None
        return self._plain[key]

    def _growth(
        self, lowered: LoweredPipeline, reference: LoweredPipeline, funcs: list[str], probes: tuple[Probe, ...]
    ) -> str:
        """Tell at which size, and where, more is needed than the reference needs; `funcs` are the outputs."""
        names = list(lowered.required({}, {}))
        outputs = _output_places(funcs, names)
        for probe in probes:
            given = self._given_regions(reference, {name: probe[place] for name, place in outputs.items()}, names)
            # An algorithm may need more than it is given, whatever its schedule: where a read depends on a size.
            needs = self._needs(reference, given)
            limits = {name: _hull(region, needs.get(name, region)) for name, region in given.items()}
            for name, d, side, limit in _outside(lowered.required(given, self._sizes.scalars), limits):
                return _explain(name, d, side, limit, probe)
            if beyond := lowered.beyond(given, self._sizes.scalars):
                return f"for an output of {_size_text(probe)} its code touches {base_name(beyond)}"
        return ""

    def _growth_of_estimates(self, lowered: LoweredPipeline, kept: tuple[int, ...], funcs: list[str]) -> str:
        """Tell where more is needed than an input is estimated to have, though the algorithm can do with that.

        What is read skewed has a larger box at root than inline, and whoever states an estimate passes that.
        """
        names = list(lowered.required({}, {}))
        given = self._sizes.regions(funcs, names)
        outputs = _output_places(funcs, names)
        estimated = {name: region for name, region in given.items() if name not in outputs}
        for name, d, side, (low, extent) in _outside(lowered.required(given, self._sizes.scalars), estimated):
            inline = None if side is None else self._reference(kept, is_at_root=False)
            if inline is None:
                continue
            beyond = _outside(inline.required(given, self._sizes.scalars), {name: estimated[name]})
            if any(known is not None for _, _, known, _ in beyond):
                continue
            return (
                f"for an output of {_size_text(self._sizes.outputs)} it needs {side.min} to {side.max} in dimension "
                f"{d} of `{base_name(name)}`, estimated from {low} to {low + extent - 1}; inline, that is enough"
            )
        return ""

    def _given_regions(
        self, reference: LoweredPipeline, outputs: dict[str, Region], names: list[str]
    ) -> dict[str, Region]:
        """The outputs, as large as their constraints want them, and inputs of exactly the size that they need.

        Whatever clamps its reads to the size of an input then stays inside. An input that is read in another way by its
        size (a reduction over all of it) has its estimated size whatever the outputs', and one whose needs only a run
        can tell is left out.
        """
        estimated = {name: self._sizes.input_region(name) for name in names if name not in outputs}
        known = {name: region for name, region in estimated.items() if region is not None}
        # What is kept, or read again, may want more than a point of an output, and then of the inputs more, too.
        for _ in range(_MOST_ROUNDS):
            answer = self._needs(reference, outputs | known)
            wanted = {name: answer.get(name, region) for name, region in outputs.items()}
            if wanted == outputs:
                break
            outputs = wanted
        exact = self._needs(reference, outputs | known)
        again = self._needs(reference, exact)
        sized = {name: known[name] for name, region in exact.items() if name in known and again.get(name) != region}
        return self._needs(reference, exact | sized) | sized if sized else exact

    def _needs(self, reference: LoweredPipeline, given: Mapping[str, Region]) -> dict[str, Region]:
        """What the reference needs of each buffer, where that can be told before a run."""
        return {
            name: tuple((side.min, side.extent) for side in sides if side is not None)
            for name, sides in reference.required(dict(given), self._sizes.scalars).items()
            if all(side is not None for side in sides)
        }


def _outside(
    needs: Mapping[str, Sequence[Any]], limits: Mapping[str, Region]
) -> Iterator[tuple[str, int, Any, tuple[int, int]]]:
    """Name, dimension, what is needed and what there is, wherever more is needed, or only a run can tell."""
    for name, sides in needs.items():
        for d, (side, (low, extent)) in enumerate(zip(sides, limits.get(name, ()), strict=False)):
            if side is None or side.min < low or side.max >= low + extent:
                yield name, d, side, (low, extent)


def _reduction_factors(schedule: Schedule) -> set[int]:
    """What the reduction loops of all Funcs are split by."""
    splits = (directive.args for directive in schedule.directives if directive.call is Call.SPLIT)
    return {factor for old, *_, factor, _ in splits if isinstance(old, RVar) and isinstance(factor, int)}


def split_factors(schedule: Schedule, func: int | None = None) -> dict[int, list[int]]:
    """List what the loops of all Funcs, or of one, are split by, by the dimension of their Func.

    A version within another, for one size alone, is no matter of other sizes.
    """
    factors: dict[int, list[int]] = {}
    dimensions: dict[tuple[int, str], int] = {
        (func.index, name): d for func in schedule.funcs for d, name in enumerate(func.args)
    }
    for directive in schedule.directives:
        if func not in (None, directive.func):
            continue
        if directive.call is Call.RENAME:
            whole, renamed = directive.args
            assert isinstance(whole, Var | RVar)
            assert isinstance(renamed, Var | RVar)
            if (directive.func, whole.name) in dimensions:
                dimensions[directive.func, renamed.name] = dimensions[directive.func, whole.name]
        if directive.call is not Call.SPLIT or len(directive.branch) > 1:
            continue
        old, *parts, factor, _ = directive.args
        assert isinstance(old, Var | RVar)
        d = dimensions.get((directive.func, old.name))
        if d is None or not isinstance(factor, int):
            continue
        factors.setdefault(d, []).append(factor)
        for part in parts:
            assert isinstance(part, Var | RVar)
            dimensions[directive.func, part.name] = d
    return factors


def _output_places(funcs: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Which output each buffer belongs to. Of a Tuple there is one buffer a value: `f.0`, `f.1`."""
    return {name: place for name in names for place, func in enumerate(funcs) if name.split(".")[0] == func}


def _explain(name: str, d: int, side: Any, given: tuple[int, int], probe: Probe) -> str:
    needs = "a region that only a run can tell" if side is None else f"{side.min} to {side.max}"
    return (
        f"for an output of {_size_text(probe)} it needs {needs} in dimension {d} of `{base_name(name)}`, "
        f"where the algorithm needs {given[0]} to {given[0] + given[1] - 1}"
    )


def _size_text(probe: Probe) -> str:
    return ", ".join("x".join(str(extent) for _, extent in region) or "scalar" for region in probe)


def _hull(one: Region, other: Region) -> Region:
    """The smallest region around both."""
    lows = [min(a, b) for (a, _), (b, _) in zip(one, other, strict=True)]
    ends = [max(a + m, b + n) for (a, m), (b, n) in zip(one, other, strict=True)]
    return tuple((low, end - low) for low, end in zip(lows, ends, strict=True))


def _region(sides: list[list[int]]) -> Region:
    return tuple((low, extent) for low, extent in sides)
