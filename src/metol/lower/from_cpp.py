"""From the C++ that Halide's autoschedulers print to directives.

In: the text, and the frame of a schedule, which tells the Funcs. Out: a `Schedule` that makes the same calls. The text
may come from another process: there Vars and RVars that nobody named have other names, so they are found by position.
The outer part of a split often has the name of the whole, `.split(x, x, xi, 8)`; here each loop has a name of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from metol.lower.cpp_syntax import Chain, Declaration, Step, Text, Value, refuse_cpp, statements
from metol.lower.directive import MEMORY_TYPES, Argument, Call, Directive, Loop, RVar, Site, Tail, Var
from metol.lower.schedule import Schedule
from metol.pipeline import PipelineDag

__all__ = ["read_cpp"]


def read_cpp(text: str, frame: Schedule, dag: PipelineDag) -> Schedule:
    """Return the schedule that a text in C++ makes, with the tails that Halide would take where none is written.

    Args:
        text: What `AutoSchedulerResults.schedule_source` holds.
        frame: What the schedule is for; a schedule without directives.
        dag: The pipeline.

    Raises:
        ScheduleFormatError: the text says something that directives cannot, or that no autoscheduler prints.
    """
    reader = _Reader(frame, dag)
    for statement in statements(text):
        if isinstance(statement, Declaration):
            reader.declare(statement)
        else:
            reader.schedule(statement)
    return replace(frame, directives=tuple(reader.directives()))


@dataclass(frozen=True, slots=True)
class _Place:
    """A loop of another Func, by the name that it has once that Func is scheduled."""

    func: int
    loop: str


_Argument: TypeAlias = Argument | _Place
_Values: TypeAlias = tuple[Value, ...]


@dataclass(slots=True)
class _StageText:
    """The loops of a Stage while its text is read, and the calls so far."""

    key: tuple[int, int]
    """Func and Stage."""
    loops: dict[str, Loop]
    """Loops that the Stage has, by the names that the text uses."""
    taken: set[str]
    """Names that loops of ours have or had."""
    calls: list[tuple[Call, tuple[_Argument, ...]]] = field(default_factory=list)
    """In the order of the text."""

    def call(self, call: Call, *args: _Argument) -> None:
        """Add a call."""
        self.calls.append((call, args))

    def loop(self, named: Loop) -> Loop:
        """Return the loop that has this name now."""
        if named.name not in self.loops:
            raise refuse_cpp(f"stage {self.key[1]} of Func {self.key[0]} has no such loop", named.name)
        return self.loops[named.name]

    def replace_loops(self, old: tuple[Loop, ...], new: tuple[Loop, ...]) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
        """Let loops become others, and return what both are called in directives."""
        before = tuple(map(self.loop, old))
        kind = RVar if any(isinstance(loop, RVar) for loop in before) else Var
        for loop in old:
            del self.loops[loop.name]
        for loop in new:
            self.loops[loop.name] = kind(self._fresh(loop.name.replace("$", "_")))
        return before, tuple(self.loops[loop.name] for loop in new)

    def _fresh(self, base: str) -> str:
        """Return a name that no loop of the Stage has had; the outer part of `x` becomes `x_o`."""
        names = (base, f"{base}_o", *(f"{base}_o{number}" for number in range(2, 2 + len(self.taken))))
        name = next(name for name in names if name not in self.taken)
        self.taken.add(name)
        return name


class _Reader:
    """What has been declared and scheduled so far."""

    def __init__(self, frame: Schedule, dag: PipelineDag) -> None:
        self._refs = frame.funcs
        self._dag = dag
        self._funcs: dict[str, int] = {}
        self._loops: dict[str, Loop] = {}
        self._texts: dict[int, list[_StageText]] = {}  # of each scheduled Func, its Stages

    def declare(self, declaration: Declaration) -> None:
        """Take note of what a name stands for; one declared before now stands for something else."""
        match declaration:
            case Declaration("Func", name, Chain("pipeline", (Step("get_func", (int(index),)),))):
                if index not in range(len(self._refs)):
                    raise refuse_cpp(f"the pipeline has {len(self._refs)} Funcs", f"get_func({index})")
                self._funcs[name] = index
            case Declaration("Var", name, Text(text)):
                self._loops[name] = Var(text)
            case Declaration("RVar", name, Text(text)):
                self._loops[name] = RVar(text)
            case Declaration("Var" | "RVar", name, Chain() as chain):
                self._loops[name] = self._loop_of_func(chain)
            case _:
                raise refuse_cpp("this declaration", f"{declaration.kind} {declaration.name} = {declaration.value}")

    def _loop_of_func(self, chain: Chain) -> Loop:
        """Return the loop of a Func that an expression such as ``f.args()[0]`` names, by its recorded name."""
        func = self._func(chain)
        match chain.steps:
            case (Step("args", ()), Step("[]", (int(position),))):
                stage = 0
            case (Step("get_schedule", ()), Step("dims", ()), Step("[]", (int(position),)), Step("var", None)):
                stage = 0
            case (
                Step("update", (int(update),)),
                Step("get_schedule", ()),
                Step("dims" | "rvars", ()),
                Step("[]", (int(position),)),
                Step("var", None),
            ):
                stage = update + 1
            case _:
                raise refuse_cpp("this loop", str(chain))
        loops = self._stage_loops(func, stage, chain)
        if position not in range(len(loops)):
            raise refuse_cpp(f"the stage has {len(loops)} loops", str(chain))
        return loops[position]

    def _stage_loops(self, func: int, stage: int, chain: Chain) -> list[Loop]:
        """Return the loops that a Stage has before it is scheduled, as Halide orders them: RVars first."""
        stages = self._dag.funcs[func].stages
        if stage not in range(len(stages)):
            raise refuse_cpp(f"Func {func} has {len(stages)} stages", str(chain))
        ref = self._refs[func]
        rvars = iter(ref.rvars[stage - 1] if stage else ())
        dims = self._dag.stages[stages[stage]].loops
        return [RVar(next(rvars)) if dim.is_rvar else Var(ref.args[dim.pure_dim]) for dim in dims]

    def _func(self, chain: Chain) -> int:
        if chain.root not in self._funcs:
            raise refuse_cpp("no Func of this name is declared", str(chain))
        return self._funcs[chain.root]

    def schedule(self, chain: Chain) -> None:
        """Take the calls on one Stage of a Func."""
        func, stage, steps = self._func(chain), 0, chain.steps
        match steps:
            case (Step("update", (int(update),)), *rest):
                stage, steps = update + 1, tuple(rest)
        if func not in self._texts:
            count = len(self._dag.funcs[func].stages)
            self._texts[func] = [self._stage_text(func, number, chain) for number in range(count)]
        if stage not in range(len(self._texts[func])):
            raise refuse_cpp(f"Func {func} has {len(self._texts[func])} stages", str(chain))
        for step in steps:
            read = _CALLS.get(step.name)
            if read is None or step.args is None:
                raise refuse_cpp("no directive does this", str(Chain(chain.root, (step,))))
            try:
                read(self, self._texts[func][stage], step.args)
            except _WrongError:
                raise refuse_cpp("these arguments", str(Chain(chain.root, (step,)))) from None

    def _stage_text(self, func: int, stage: int, chain: Chain) -> _StageText:
        loops = {loop.name: loop for loop in self._stage_loops(func, stage, chain)}
        rvars = self._refs[func].rvars[stage - 1] if stage else ()
        return _StageText((func, stage), loops, {*self._refs[func].args, *rvars})

    def _named(self, value: Value) -> Loop:
        """Return what a name stands for; Mullapudi2016 leaves some undeclared."""
        if not isinstance(value, Chain) or value.steps:
            raise _WrongError
        return self._loops.get(value.root, Var(value.root))

    def read_split(self, text: _StageText, values: _Values) -> None:
        """Read ``split(x, xo, xi, 8, TailStrategy::RoundUp)``."""
        match values:
            case (old, outer, inner, int(factor)):
                name = "Auto"
            case (old, outer, inner, int(factor), tail):
                name = _constant(tail, "TailStrategy")
            case _:
                raise _WrongError
        (whole,), parts = text.replace_loops((self._named(old),), (self._named(outer), self._named(inner)))
        text.call(Call.SPLIT, whole, *parts, factor, _tail(name, whole, text.key[1]))

    def read_fuse(self, text: _StageText, values: _Values) -> None:
        """Read ``fuse(x, y, xy)``."""
        if len(values) != 3:
            raise _WrongError
        inner, outer, fused = map(self._named, values)
        parts, (whole,) = text.replace_loops((inner, outer), (fused,))
        text.call(Call.FUSE, *parts, whole)

    def read_reorder(self, text: _StageText, values: _Values) -> None:
        """Read ``reorder(x, y)`` or ``reorder({x, y})``; of one loop, it says nothing."""
        loops = [text.loop(self._named(value)) for value in _unbraced(values)]
        if len(loops) > 1:
            text.call(Call.REORDER, *loops)

    def read_reorder_storage(self, text: _StageText, values: _Values) -> None:
        """Read ``reorder_storage(y, x)``."""
        text.call(Call.REORDER_STORAGE, *map(self._named, _unbraced(values)))

    def read_store_in(self, text: _StageText, values: _Values) -> None:
        """Read ``store_in(MemoryType::Stack)``."""
        name = _constant(values[0] if len(values) == 1 else (), "MemoryType")
        if name not in MEMORY_TYPES:
            raise _WrongError
        text.call(Call.STORE_IN, name)

    def read_place(self, call: Call, text: _StageText, values: _Values) -> None:
        """Read ``compute_at(f, x)``."""
        match values:
            case (Chain(_, ()) as func, loop):
                text.call(call, _Place(self._func(func), self._named(loop).name))
            case _:
                raise _WrongError

    def read_loop(self, call: Call, text: _StageText, values: _Values) -> None:
        """Read ``vectorize(xi)``."""
        if len(values) != 1:
            raise _WrongError
        text.call(call, text.loop(self._named(values[0])))

    def read_bare(self, call: Call, text: _StageText, values: _Values) -> None:
        """Read ``compute_root()``."""
        if values:
            raise _WrongError
        text.call(call)

    def directives(self) -> Iterator[Directive]:
        """Yield the directives of all Funcs; an update that is left as it is says so, or Halide warns."""
        for func, texts in self._texts.items():
            for stage, text in enumerate(texts):
                calls = text.calls if text.calls or stage == 0 else [(Call.UNSCHEDULED, ())]
                for call, args in calls:
                    found = (self._site(arg, func) if isinstance(arg, _Place) else arg for arg in args)
                    yield Directive(func, stage, call, tuple(found))

    def _site(self, place: _Place, producer: int) -> Site:
        """Return the loop of a name in the Stage of another Func that reads the producer."""
        texts = [text for text in self._texts.get(place.func, ()) if place.loop in text.loops]
        if not texts:
            raise refuse_cpp(f"Func {place.func} has no such loop once it is scheduled", place.loop)
        text = next((text for text in texts if self._reads(text.key, producer)), texts[0])
        return Site(*text.key, text.loops[place.loop])

    def _reads(self, key: tuple[int, int], producer: int) -> bool:
        """Does a Stage read a Func, itself or through others?"""
        func, stage = key
        seen, waiting = {func}, [self._dag.funcs[func].stages[stage]]
        while waiting:
            read = {edge.producer for edge in self._dag.stages[waiting.pop()].edges} - seen
            seen |= read
            waiting += [stage for other in read for stage in self._dag.funcs[other].stages]
        return producer in seen


class _WrongError(Exception):
    """A call is made with other arguments than it takes."""


def _constant(value: Value, kind: str) -> str:
    """Return the name of a constant such as ``TailStrategy::RoundUp``."""
    if not isinstance(value, Chain) or value.steps or not value.root.startswith(f"{kind}::"):
        raise _WrongError
    return value.root.removeprefix(f"{kind}::")


def _tail(name: str, loop: Loop, stage: int) -> Tail:
    """Return the tail of a name, or what Halide takes for `Auto`."""
    if name == "Auto":
        if isinstance(loop, RVar):
            return Tail.GUARD_WITH_IF
        return Tail.ROUND_UP if stage else Tail.SHIFT_INWARDS
    if name not in [tail.value for tail in Tail]:
        raise _WrongError
    return Tail(name)


def _unbraced(values: _Values) -> _Values:
    return values[0] if len(values) == 1 and isinstance(values[0], tuple) else values


_ReadCall: TypeAlias = Callable[[_Reader, _StageText, _Values], None]


def _for_call(read: Callable[[_Reader, Call, _StageText, _Values], None], call: Call) -> _ReadCall:
    return lambda reader, text, values: read(reader, call, text, values)


_CALLS: dict[str, _ReadCall] = {
    "split": _Reader.read_split,
    "fuse": _Reader.read_fuse,
    "reorder": _Reader.read_reorder,
    "reorder_storage": _Reader.read_reorder_storage,
    "store_in": _Reader.read_store_in,
    **{call.value: _for_call(_Reader.read_loop, call) for call in (Call.VECTORIZE, Call.UNROLL, Call.PARALLEL)},
    **{call.value: _for_call(_Reader.read_place, call) for call in (Call.COMPUTE_AT, Call.STORE_AT)},
    **{
        call.value: _for_call(_Reader.read_bare, call)
        for call in (Call.COMPUTE_ROOT, Call.STORE_ROOT, Call.UNSCHEDULED)
    },
}
