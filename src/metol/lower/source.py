"""What Python and C++ source have in common: identifiers, blocks of one Func each, chains of calls.

Enters: a schedule and the few tokens in which the two languages differ. Leaves: an `Outline` whose pieces are text
already; what remains for `emit_python` and `emit_cpp` is to lay them out.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from metol.lower.check import intermediate_funcs
from metol.lower.directive import Call, Directive, Kind, Loop, RVar, Site, Tail, Var, arguments
from metol.lower.func_ref import condition_output
from metol.lower.render import render_arguments
from metol.lower.schedule_data import ScheduleData

__all__ = ["Block", "Chain", "Language", "Lookup", "Outline", "header_lines", "outline"]


@dataclass(frozen=True, slots=True)
class Language:
    """Where the two languages differ inside an expression."""

    qualify: Callable[..., str]
    """("TailStrategy", "RoundUp") -> hl.TailStrategy.RoundUp or Halide::TailStrategy::RoundUp."""
    all_of: Callable[[list[str]], str]
    """Conditions -> their conjunction."""
    listed: Callable[[list[str]], str]
    """Loops -> the arguments that stand for a list of them."""
    pairs: Callable[[list[tuple[str, str]]], str]
    """Pairs -> a list of pairs."""
    method: Callable[[Call], str]
    """Call.IN -> in_ or in."""
    reserved: frozenset[str]
    """Words that cannot be identifiers."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """An identifier for a loop that the pipeline has already."""

    name: str
    """The identifier."""
    kind: str
    """"Var" or "RVar"."""
    source: str
    """What yields the list that the loop is in: `blur.args()` or `blur.rvars(0)`."""
    position: int
    """Where in that list."""
    count: int
    """How long that list is."""

    @property
    def expression(self) -> str:
        """The loop without an identifier."""
        return f"{self.source}[{self.position}]"


@dataclass(slots=True)
class Chain:
    """Calls on one Func or Stage, one after the other."""

    target: str
    """The Func or Stage."""
    calls: list[str] = field(default_factory=list)
    """Each call with its arguments."""
    result: str = ""
    """The identifier that the result gets, "" for none."""
    result_kind: str = ""
    """"Stage" where the result is a new branch, "Func" where it is a Func declared in the outline."""

    def lines(self, length: int) -> list[str]:
        """Return `target.call(...).call(...)` on one line, or several if it is longer than `length`."""
        line = ".".join([self.target, *self.calls])
        if len(line) <= length:
            return [line]
        first, *others = self.calls
        if others:
            return [self.target, *(f"    .{call}" for call in self.calls)]
        name, _, rest = first.partition("(")
        return [f"{self.target}.{name}(", f"    {rest.removesuffix(')')}", ")"]


@dataclass(slots=True)
class Block:
    """Everything that is called on one Func and its Stages."""

    func: int
    """The Func, by position."""
    title: str
    """Its name."""
    lookups: dict[Loop | tuple[int, RVar], Lookup] = field(default_factory=dict)
    """The loops of the pipeline that the chains name."""
    chains: list[Chain] = field(default_factory=list)
    """What to call, in order."""

    def ordered_lookups(self) -> list[Lookup]:
        """Return the lookups in the order of the lists that they are taken from."""
        return sorted(self.lookups.values(), key=lambda lookup: (lookup.source, lookup.position))


@dataclass(slots=True)
class Outline:
    """The body of an emitted function, in order."""

    funcs: list[tuple[str, int]]
    """Identifier and position of each Func that is mentioned."""
    made_funcs: list[str]
    """Identifiers of the Funcs that `rfactor` and `in` make and that are mentioned."""
    new_loops: list[tuple[str, Loop]]
    """Identifiers of the loops that splits, fuses and rfactors make."""
    lookups: list[Lookup]
    """RVars that must be looked up before an `rfactor` takes them away."""
    blocks: list[Block]


def outline(schedule: ScheduleData, language: Language, taken: tuple[str, ...]) -> Outline:
    """Return the pieces of the source; `taken` are identifiers that the layout uses itself."""
    return _Source(schedule, language, taken).outline()


def header_lines(schedule: ScheduleData) -> list[str]:
    """Return what a person who finds the source wants to know first."""
    outputs = sorted((func.output, func.name) for func in schedule.funcs if func.output >= 0)
    lines = [f"Schedule of {', '.join(name for _, name in outputs)}, by Metol {schedule.metol_version}".rstrip()]
    lines += [f"Halide: {schedule.halide_version}"] if schedule.halide_version else []
    lines += [f"Target: {schedule.target}"] if schedule.target else []
    lines += [f"Algorithm: {schedule.algorithm_hash}"] if schedule.algorithm_hash else []
    kept = [schedule.funcs[keep.func].name for keep in schedule.kept]
    lines += [f"Schedule by hand, before: {', '.join(kept)}"] if kept else []
    for estimate in schedule.estimates:
        ranges = " x ".join(f"[{low}, {low + extent})" for low, extent in estimate.bounds)
        lines.append(f"Estimate: {estimate.name} {ranges if estimate.bounds else estimate.value}")
    return [re.sub(r"\s+", " ", line) for line in lines]


class _Names:
    """Gives out identifiers, each once."""

    def __init__(self, taken: frozenset[str]) -> None:
        self.taken = set(taken)

    def give(self, name: str) -> str:
        """Return an identifier like `name` that is still free, and take it."""
        base = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))
        base = base if re.match(r"[A-Za-z]", base) else f"v{base}" if base.startswith("_") else f"v_{base}"
        for candidate in itertools.chain([base], (f"{base}_{number}" for number in itertools.count(2))):
            if candidate not in self.taken:
                self.taken.add(candidate)
                return candidate
        raise AssertionError("itertools.count ended")


class _Source:
    """Renders arguments as text, and remembers which identifiers that needs."""

    def __init__(self, schedule: ScheduleData, language: Language, taken: tuple[str, ...]) -> None:
        self._language = language
        self._directives = schedule.directives
        self._count = len(schedule.funcs)
        self._refs = schedule.funcs + intermediate_funcs(schedule.funcs, schedule.directives)
        self._names = _Names(language.reserved | set(taken))
        self._makers = {_made_func(directive): directive for directive in self._directives if _makes_func(directive)}
        self._func_names: dict[int, str] = {}
        self._new_loops: dict[Loop, str] = {}
        self._kept: dict[tuple[tuple[int, int], Loop], Lookup] = {}
        self._block = Block(-1, "")
        self._local = self._names
        self._name_what_all_blocks_share()

    def _name_what_all_blocks_share(self) -> None:
        """Name the Funcs, the new loops, and the RVars that an rfactor will take away."""
        mentioned = {directive.func for directive in self._directives}
        loops: dict[tuple[int, int, Loop], None] = {}
        for directive in self._directives:
            for kind, values in arguments(directive):
                if kind in (Kind.MINIMUM_EXTENT, Kind.EXACT_SIDE):
                    mentioned.add(condition_output(self._refs, directive.func))
                for value in values:
                    if kind is Kind.FUNC and isinstance(value, int):
                        mentioned.add(value)
                    elif isinstance(value, Site) and value.loop is not None:
                        mentioned.add(value.func)
                        loops[value.func, value.stage, value.loop] = None
                    elif isinstance(value, Var | RVar):
                        loops[directive.func, directive.stage, value] = None
        self._func_names = {index: self._names.give(self._refs[index].name) for index in sorted(mentioned)}
        for func, stage, loop in loops:
            home = self._home(func, stage, loop)
            if home is None and loop not in self._new_loops:
                self._new_loops[loop] = self._names.give(loop.name)
            is_taken_away = home is not None and isinstance(loop, RVar) and self._is_factored(*home)
            if home is not None and is_taken_away and (home, loop) not in self._kept:
                self._kept[home, loop] = self._lookup(*home, loop, self._names)

    def _is_factored(self, func: int, stage: int) -> bool:
        return any((maker.func, maker.stage) == (func, stage) for maker in self._makers.values())

    def _home(self, func: int, stage: int, loop: Loop) -> tuple[int, int] | None:
        """Return the Func and Stage in whose Vars or RVars the pipeline has this loop, None for a new one."""
        ref = self._refs[func]
        maker = self._makers.get(func)
        if isinstance(loop, Var):
            names = ref.args if maker is None else self._refs[maker.func].args
            return (func, stage) if loop.name in names else None
        if maker is not None:
            return self._home(maker.func, maker.stage, loop)
        return (func, stage) if stage > 0 and loop.name in ref.rvars[stage - 1] else None

    def _lookup(self, func: int, stage: int, loop: Loop, names: _Names | None) -> Lookup:
        owner, ref = self._func_names[func], self._refs[func]
        is_var = isinstance(loop, Var)
        listed = ref.args if is_var else ref.rvars[stage - 1]
        return Lookup(
            name="" if names is None else names.give(loop.name),
            kind="Var" if is_var else "RVar",
            source=f"{owner}.args()" if is_var else f"{owner}.rvars({stage - 1})",
            position=listed.index(loop.name),
            count=len(listed),
        )

    def outline(self) -> Outline:
        """Render every directive and return the pieces."""
        blocks = [
            self._render_block(func, list(group))
            for func, group in itertools.groupby(self._directives, key=lambda directive: directive.func)
        ]
        return Outline(
            funcs=[(name, index) for index, name in self._func_names.items() if index < self._count],
            made_funcs=[name for index, name in self._func_names.items() if index >= self._count],
            new_loops=[(name, loop) for loop, name in self._new_loops.items()],
            lookups=list(self._kept.values()),
            blocks=blocks,
        )

    def _render_block(self, func: int, directives: list[Directive]) -> Block:
        self._block = Block(func, self._refs[func].name)
        self._local = _Names(frozenset(self._names.taken))
        branches = {(d.stage, d.branch): "" for d in directives if d.branch}
        made = {(d.stage, d.branch): 0 for d in directives}
        chain: Chain | None = None
        for directive in directives:
            key = (directive.stage, directive.branch)
            target = branches.get(key) or self._target(directive)
            if chain is None or chain.target != target or chain.result_kind:
                chain = Chain(target)
                self._block.chains.append(chain)
            ends_chain = directive.call.makes_branch or directive.call.makes_func
            if ends_chain and chain.calls:
                chain = Chain(target)
                self._block.chains.append(chain)
            method = self._language.method(directive.call)
            chain.calls.append(f"{method}({', '.join(render_arguments(directive, self))})")
            if directive.call.makes_branch:
                branch = (*directive.branch, made[key])
                made[key] += 1
                chain.result_kind = "Stage"
                if (directive.stage, branch) in branches:
                    chain.result = branches[directive.stage, branch] = self._local.give(_branch_name(target, branch))
            elif directive.call.makes_func:
                chain.result_kind = "Func"
                chain.result = self._func_names.get(_made_func(directive), "")
        return self._block

    def _target(self, directive: Directive) -> str:
        """Return what a directive outside of branches is called on."""
        name = self._func_names[directive.func]
        if directive.call is Call.SET_BOUNDS:
            return f"{self._buffer(directive.func)}.dim({directive.args[0]})"
        return name if directive.stage == 0 else f"{name}.update({directive.stage - 1})"

    def _buffer(self, func: int) -> str:
        """The buffer of an output; of a tuple the first, which Halide gives all others the shape of."""
        is_tuple = len(self._refs[func].types) > 1
        return f"{self._func_names[func]}.{'output_buffers()[0]' if is_tuple else 'output_buffer()'}"

    def loop(self, func: int, stage: int, loop: Loop) -> str:
        home = self._home(func, stage, loop)
        if home is None:
            return self._new_loops[loop]
        if (home, loop) in self._kept:
            return self._kept[home, loop].name
        if func != self._block.func:
            return self._lookup(*home, loop, None).expression
        key: Loop | tuple[int, RVar] = loop if isinstance(loop, Var) else (stage, loop)
        if key not in self._block.lookups:
            self._block.lookups[key] = self._lookup(*home, loop, self._local)
        return self._block.lookups[key].name

    def loops(self, loops: tuple[str, ...]) -> str:
        return self._language.listed(list(loops))

    def root(self) -> str:
        return self._language.qualify("LoopLevel", "root") + "()"

    def stage_level(self, site: Site) -> str:
        assert site.loop is not None
        loop = self.loop(site.func, site.stage, site.loop)
        return f"{self._language.qualify('LoopLevel')}({self._func_names[site.func]}, {loop}, {site.stage})"

    def func(self, func: int) -> str:
        return self._func_names[func]

    def number(self, value: int) -> str:
        return str(value)

    def tail(self, tail: Tail) -> str:
        return self._language.qualify("TailStrategy", tail.value)

    def memory(self, name: str) -> str:
        return self._language.qualify("MemoryType", name)

    def minimum_extents(self, func: int, extents: tuple[tuple[int, int], ...]) -> str:
        buffer = self._buffer(condition_output(self._refs, func))
        return self._language.all_of([f"{buffer}.dim({d}).extent() >= {extent}" for d, extent in extents])

    def exact_sides(self, func: int, sides: tuple[tuple[int, int, int], ...]) -> str:
        buffer = self._buffer(condition_output(self._refs, func))
        return self._language.all_of(
            [
                part
                for d, low, extent in sides
                for part in (f"{buffer}.dim({d}).min() == {low}", f"{buffer}.dim({d}).extent() == {extent}")
            ]
        )

    def preserved(self, pairs: tuple[tuple[str, str], ...]) -> str:
        return ", ".join(pairs[0]) if len(pairs) == 1 else self._language.pairs(list(pairs))


def _makes_func(directive: Directive) -> bool:
    return directive.call.makes_func


def _made_func(directive: Directive) -> int:
    index = directive.args[0]
    assert isinstance(index, int)
    return index


def _branch_name(target: str, branch: tuple[int, ...]) -> str:
    return f"{target.split('_branch_')[0].replace('.update', '_update').rstrip(')')}_branch_" + "_".join(
        map(str, branch)
    )
