"""Whether a list of directives makes sense on its own: argument kinds, known loops and Funcs, places that exist.

Enters: the Funcs of a pipeline and a list of directives. Leaves: nothing, or a ScheduleFormatError that names the first
wrong directive. What Halide alone can decide (races, tails, lowering) is left to Halide.
"""

from collections.abc import Callable
from typing import TypeAlias

from metol.errors import ScheduleFormatError
from metol.lower.directive import (
    MEMORY_TYPES,
    SIGNATURES,
    Argument,
    Call,
    Directive,
    Kind,
    Loop,
    Owner,
    RVar,
    Site,
    Tail,
    Var,
    arguments,
)
from metol.lower.func_ref import FuncRef, condition_output

__all__ = ["check_directives", "intermediate_funcs"]

_StageKey: TypeAlias = tuple[int, int, tuple[int, ...]]  # Func, Stage, branch


def check_directives(funcs: tuple[FuncRef, ...], directives: tuple[Directive, ...]) -> None:
    """Raise ScheduleFormatError for the first directive that cannot mean anything on these Funcs."""
    checker = _Checker(funcs)
    for number, directive in enumerate(directives):
        try:
            checker.check(directive)
        except _WrongError as wrong:
            raise _explain(number, directive, wrong) from None
    for number, directive in enumerate(directives):
        try:
            checker.check_places(directive)
        except _WrongError as wrong:
            raise _explain(number, directive, wrong) from None


def intermediate_funcs(funcs: tuple[FuncRef, ...], directives: tuple[Directive, ...]) -> tuple[FuncRef, ...]:
    """Return the Funcs that the `rfactor` and `in` directives make, in order of their numbers."""
    checker = _Checker(funcs)
    for directive in directives:
        checker.check(directive)
    return tuple(checker.funcs[len(funcs) :])


class _WrongError(Exception):
    """What is wrong with the directive at hand."""


def _explain(number: int, directive: Directive, wrong: _WrongError) -> ScheduleFormatError:
    return ScheduleFormatError(
        f"Directive {number} of the schedule, `{directive}`, is not valid: {wrong}. "
        "Correct it, or make the schedule anew."
    )


def _require(condition: bool, wrong: str) -> None:
    if not condition:
        raise _WrongError(wrong)


class _Checker:
    """Follows which loops each Stage has while the directives are gone through in order."""

    def __init__(self, funcs: tuple[FuncRef, ...]) -> None:
        self.funcs = list(funcs)
        self.loops: dict[_StageKey, tuple[Loop, ...]] = {}
        self.names_taken: dict[_StageKey, set[str]] = {}
        self.is_preamble = True
        self.finished: set[int] = set()
        self.current = -1
        for index, func in enumerate(funcs):
            _require_position(index, func)
            self._add_stages(func)

    def _add_stages(self, func: FuncRef) -> None:
        pure = tuple(Var(name) for name in func.args)
        for stage, rvars in enumerate(((), *func.rvars)):
            key = (func.index, stage, ())
            self.loops[key] = tuple(RVar(name) for name in rvars) + pure
            self.names_taken[key] = {loop.name for loop in self.loops[key]}

    def check(self, directive: Directive) -> None:
        """Check one directive on its own and against those before it, and follow what it does to the loops."""
        key = self._check_owner(directive)
        _require(
            SIGNATURES[directive.call].kinds(len(directive.args)) is not None,
            f"{directive.call.value} does not take {len(directive.args)} arguments",
        )
        for kind, values in arguments(directive):
            for value in values:
                _require(isinstance(value, _TYPES[kind]) and not isinstance(value, bool), _wrong_type(kind, value))
            _CHECKS[kind](self, key, values)
        self._follow(key, directive)

    def _check_owner(self, directive: Directive) -> _StageKey:
        key = (directive.func, directive.stage, directive.branch)
        _require(0 <= directive.func < len(self.funcs), f"there is no Func {directive.func}")
        _require((*key[:2], ()) in self.loops, f"Func {directive.func} has no stage {directive.stage}")
        _require(key in self.loops, f"stage {directive.stage} has no branch {directive.branch} yet")
        owner = SIGNATURES[directive.call].owner
        on_func = directive.stage == 0 and directive.branch == ()
        _require(
            owner is not Owner.FUNC or on_func, f"{directive.call.value} is for a Func, so stage must be 0, branch ()"
        )
        _require(owner is not Owner.UPDATE or directive.stage > 0, f"{directive.call.value} is for updates only")
        # What is made is named by the directives of other Funcs, so it may be made before all of them.
        self.is_preamble = self.is_preamble and (directive.call is Call.SPLIT or directive.call.makes_func)
        if directive.func != self.current and not self.is_preamble:
            self.finished.add(self.current)
            self.current = directive.func
        _require(directive.func not in self.finished, "all directives of one Func must stand next to each other")
        return key

    def check_loop(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check a loop that the Stage must have by now."""
        (loop,) = values
        _require(loop in self.loops[key], f"the stage has no loop {loop}; it has {list(self.loops[key])}")

    def check_new_loop(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check the name of a loop that the call makes."""
        for loop in values:
            assert isinstance(loop, Var | RVar)
            _require(loop.name != "" and "." not in loop.name, f"{loop.name!r} cannot name a loop")
            _require(loop.name not in self.names_taken[key], f"the stage already has, or had, a loop {loop.name}")
            self.names_taken[key].add(loop.name)

    def check_dimension(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check a dimension of the Func's storage."""
        (var,) = values
        assert isinstance(var, Var)
        _require(var.name in self.funcs[key[0]].args, f"`{self.funcs[key[0]].name}` has no dimension {var.name}")

    def check_func(self, _key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check the number of a Func."""
        _require(values[0] in range(len(self.funcs)), f"there is no Func {values[0]}")

    def check_new_func(self, _key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check the number of the Func that the call makes."""
        _require(values[0] == len(self.funcs), f"the Func that is made must have number {len(self.funcs)}")

    def check_minimum_extent(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check a condition on the size of the output."""
        dimension, extent = values
        assert isinstance(dimension, int)
        assert isinstance(extent, int)
        output = self.funcs[condition_output(self.funcs, key[0])]
        _require(0 <= dimension < output.dimensions, f"output `{output.name}` has no dimension {dimension}")
        _require(extent >= 1, "an extent is 1 or more")

    def check_exact_side(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check a condition that fixes one side of the output."""
        dimension, _, extent = values
        self.check_minimum_extent(key, (dimension, extent))

    def check_buffer_dimension(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check a dimension of the buffer that an output is written to."""
        (dimension,) = values
        func = self.funcs[key[0]]
        _require(func.output >= 0, f"`{func.name}` is not an output, so it has no buffer")
        _require(dimension in range(func.dimensions), f"output `{func.name}` has no dimension {dimension}")

    def check_preserved(self, key: _StageKey, values: tuple[Argument, ...]) -> None:
        """Check an RVar that rfactor preserves, and the Var that walks it in the Func it makes."""
        rvar, var = values
        self.check_loop(key, (rvar,))
        _require(isinstance(rvar, RVar) and isinstance(var, Var), "rfactor takes pairs of an RVar and a new Var")
        self.check_new_loop(key, (var,))

    def check_places(self, directive: Directive) -> None:
        """Check that the loops of other Funcs that a directive names exist once everything is scheduled."""
        for site in directive.args:
            if not isinstance(site, Site) or site.loop is None:
                continue
            stages = [key for key in self.loops if key[:2] == (site.func, site.stage)]
            _require(bool(stages), f"there is no Func {site.func} with a stage {site.stage}")
            for key in stages:
                where = f"`{self.funcs[site.func].name}` stage {site.stage} branch {key[2]}"
                _require(
                    site.loop in self.loops[key], f"{where} has no loop {site.loop}; it has {list(self.loops[key])}"
                )

    def _follow(self, key: _StageKey, directive: Directive) -> None:
        """Do to the loops of the Stage what the directive does."""
        loops = self.loops[key]
        if directive.call is Call.SPLIT:
            old, outer, inner = _loops_of(directive.args[:3])
            _require(type(outer) is type(old) and type(inner) is type(old), "splitting a Var makes Vars, an RVar RVars")
            self.loops[key] = tuple(new for loop in loops for new in ((inner, outer) if loop == old else (loop,)))
        elif directive.call is Call.FUSE:
            inner, outer, fused = _loops_of(directive.args)
            kind = RVar if RVar in (type(inner), type(outer)) else Var
            _require(isinstance(fused, kind), "fusing makes an RVar where one of the two is one, a Var otherwise")
            _require(inner != outer, "a loop cannot be fused with itself")
            self.loops[key] = tuple(fused if loop == inner else loop for loop in loops if loop != outer)
        elif directive.call is Call.RENAME:
            old, new = _loops_of(directive.args)
            _require(type(new) is type(old), "renaming a Var makes a Var, an RVar an RVar")
            self.loops[key] = tuple(new if loop == old else loop for loop in loops)
        elif directive.call.makes_branch:
            count = sum(1 for other in self.loops if other[:2] == key[:2] and other[2][:-1] == key[2] and other[2])
            child = (key[0], key[1], (*key[2], count))
            self.loops[child] = loops
            self.names_taken[child] = set(self.names_taken[key])
        elif directive.call is Call.RFACTOR:
            self._follow_rfactor(key, directive)
        elif directive.call is Call.IN:
            self._follow_in(key, directive)

    def _follow_rfactor(self, key: _StageKey, directive: Directive) -> None:
        """The update keeps the preserved RVars; the new Func reduces over the others, with a Var for each preserved."""
        source = self.funcs[key[0]]
        preserved = _loops_of(directive.args[1::2])
        walking = _loops_of(directive.args[2::2])
        reduced = [loop for loop in self.loops[key] if isinstance(loop, RVar) and loop not in preserved]
        func = FuncRef(
            index=len(self.funcs),
            name=f"{source.name}_intm",
            args=source.args + tuple(var.name for var in walking),
            rvars=(tuple(rvar.name for rvar in reduced),),
            types=source.types,
        )
        self.funcs.append(func)
        self._add_stages(func)
        self.loops[key] = tuple(loop for loop in self.loops[key] if loop not in reduced)

    def _follow_in(self, key: _StageKey, directive: Directive) -> None:
        """The copy has the Vars of what it copies."""
        number, consumer = directive.args
        assert isinstance(consumer, int)
        _require(consumer not in (number, key[0]), "a Func is copied for another one")
        source = self.funcs[key[0]]
        name = f"{source.name}_in_{self.funcs[consumer].name}"
        self.funcs.append(FuncRef(len(self.funcs), name, source.args, types=source.types))
        self._add_stages(self.funcs[-1])


def _require_position(index: int, func: FuncRef) -> None:
    if func.index != index:
        raise ScheduleFormatError(
            f"Func `{func.name}` stands at position {index} of the schedule but says {func.index}."
        )


def _loops_of(values: tuple[Argument, ...]) -> tuple[Loop, ...]:
    return tuple(value for value in values if isinstance(value, Var | RVar))


def _wrong_type(kind: Kind, value: Argument) -> str:
    return f"{value!r} is not a {kind.name.lower().replace('_', ' ')}"


def _nothing(_checker: _Checker, _key: _StageKey, _values: tuple[Argument, ...]) -> None:
    """Accept: the type says all."""


def _check_factor(_checker: _Checker, _key: _StageKey, values: tuple[Argument, ...]) -> None:
    _require(isinstance(values[0], int) and values[0] >= 1, f"a factor is 1 or more, not {values[0]}")


def _check_memory(_checker: _Checker, _key: _StageKey, values: tuple[Argument, ...]) -> None:
    _require(values[0] in MEMORY_TYPES, f"a memory type is one of {', '.join(MEMORY_TYPES)}")


def _check_stage_loop(_checker: _Checker, _key: _StageKey, values: tuple[Argument, ...]) -> None:
    _require(isinstance(values[0], Site) and values[0].loop is not None, "a loop is needed, not the root")


_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.LOOP: (Var, RVar),
    Kind.LISTED_LOOP: (Var, RVar),
    Kind.NEW_LOOP: (Var, RVar),
    Kind.DIMENSION: Var,
    Kind.SITE: Site,
    Kind.STAGE_LOOP: Site,
    Kind.FUNC: int,
    Kind.NEW_FUNC: int,
    Kind.FACTOR: int,
    Kind.INTEGER: int,
    Kind.BUFFER_DIMENSION: int,
    Kind.TAIL: Tail,
    Kind.MEMORY: str,
    Kind.MINIMUM_EXTENT: int,
    Kind.EXACT_SIDE: int,
    Kind.PRESERVED: (Var, RVar),
}

_CHECKS: dict[Kind, Callable[[_Checker, _StageKey, tuple[Argument, ...]], None]] = {
    Kind.LOOP: _Checker.check_loop,
    Kind.LISTED_LOOP: _Checker.check_loop,
    Kind.NEW_LOOP: _Checker.check_new_loop,
    Kind.DIMENSION: _Checker.check_dimension,
    Kind.SITE: _nothing,
    Kind.STAGE_LOOP: _check_stage_loop,
    Kind.FUNC: _Checker.check_func,
    Kind.NEW_FUNC: _Checker.check_new_func,
    Kind.FACTOR: _check_factor,
    Kind.INTEGER: _nothing,
    Kind.BUFFER_DIMENSION: _Checker.check_buffer_dimension,
    Kind.TAIL: _nothing,
    Kind.MEMORY: _check_memory,
    Kind.MINIMUM_EXTENT: _Checker.check_minimum_extent,
    Kind.EXACT_SIDE: _Checker.check_exact_side,
    Kind.PRESERVED: _Checker.check_preserved,
}
