"""Reads the C++ that Halide's autoschedulers print, as far as syntax goes.

In: text of the form ``Func f = pipeline.get_func(2); Var xi("xi"); f.split(x, x, xi, 8).vectorize(xi);``. Out:
statements: declarations, and chains of calls. What the calls mean is for `from_cpp.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from metol.errors import ScheduleFormatError

__all__ = ["Chain", "Declaration", "Statement", "Step", "Text", "Value", "refuse_cpp", "statements"]

# Halide's `$` is part of names here, as it is where autoschedulers print RVars: `k$x`.
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*) | (?P<name>[A-Za-z_$][\w$]*(?:::[A-Za-z_$][\w$]*)*) | (?P<number>-?\d+)
    | "(?P<text>[^"\\\n]*)" | (?P<mark>[{}()\[\],;.=])""",
    re.VERBOSE,
)
_TYPES = ("Func", "Var", "RVar")
_END = ("end", "")


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    value: str
    """What stands between the quotes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a chain: a member, a call of it, or an index."""

    name: str
    """The member; "[]" for an index."""
    args: "tuple[Value, ...] | None" = None
    """What it is called with; None for a member that is not called."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A name, and what is done with it: ``f.update(0).get_schedule().dims()[1].var``."""

    root: str
    """The name; ``TailStrategy::RoundUp`` is one."""
    steps: tuple[Step, ...] = ()
    """In order."""

    def __str__(self) -> str:
        return self.root + "".join(map(_show_step, self.steps))


Value: TypeAlias = int | Text | Chain | tuple["Value", ...]
"""An argument; a tuple is a list in braces."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """``Var x = VALUE;`` or ``Var x(VALUE);``."""

    kind: str
    """``Func``, ``Var`` or ``RVar``."""
    name: str
    """What is declared."""
    value: Value
    """What it is."""


Statement: TypeAlias = Declaration | Chain


def refuse_cpp(what: str, wrong: str) -> ScheduleFormatError:
    """Return the error for C++ that is not understood, with the offending text."""
    return ScheduleFormatError(
        f"The C++ schedule is not understood: {what}: `{wrong}`. Write it as an autoscheduler of Halide 21 prints it."
    )


def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a schedule in C++; braces around blocks of them mean nothing.

    Raises:
        ScheduleFormatError: the text is of another form.
    """
    parser = _Parser(text)
    found: list[Statement] = []
    while not parser.at_end():
        if not (parser.accepts("{") or parser.accepts("}")):
            found.append(parser.statement())
    return tuple(found)


def _show_step(step: Step) -> str:
    shown = "" if step.args is None else ", ".join(map(_show_value, step.args))
    if step.name == "[]":
        return f"[{shown}]"
    return f".{step.name}" if step.args is None else f".{step.name}({shown})"


def _show_value(value: Value) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(map(_show_value, value)) + "}"
    return f'"{value.value}"' if isinstance(value, Text) else str(value)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise refuse_cpp("these characters", text[position : position + 40].split("\n")[0])
        position = found.end()
        if found.lastgroup != "space":
            assert found.lastgroup is not None
            yield found.lastgroup, found[found.lastgroup]


class _Parser:
    """Recursive descent, with one token to look ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def at_end(self) -> bool:
        return self._position == len(self._tokens)

    def accepts(self, mark: str) -> bool:
        """Step over a punctuation mark, if it is next."""
        is_next = self._peek() == ("mark", mark)
        self._position += is_next
        return is_next

    def statement(self) -> Statement:
        kind, name = self._peek()
        if kind == "name" and name in _TYPES:
            return self._declaration()
        chain = self._chain()
        self._require(";")
        return chain

    def _declaration(self) -> Declaration:
        kind, name = self._take("name"), self._take("name")
        is_call = self.accepts("(")
        if not is_call:
            self._require("=")
        value = self._value()
        if is_call:
            self._require(")")
        self._require(";")
        return Declaration(kind, name, value)

    def _chain(self) -> Chain:
        root = self._take("name")
        steps: list[Step] = []
        while True:
            if self.accepts("."):
                name = self._take("name")
                steps.append(Step(name, self._values(")") if self.accepts("(") else None))
            elif self.accepts("["):
                steps.append(Step("[]", self._values("]")))
            else:
                return Chain(root, tuple(steps))

    def _values(self, end: str) -> tuple[Value, ...]:
        """Return what stands before a closing mark, and step over that."""
        values: list[Value] = []
        while not self.accepts(end):
            if values:
                self._require(",")
            values.append(self._value())
        return tuple(values)

    def _value(self) -> Value:
        if self.accepts("{"):
            return self._values("}")
        match self._peek()[0]:
            case "number":
                return int(self._take("number"))
            case "text":
                return Text(self._take("text"))
            case _:
                return self._chain()

    def _peek(self) -> tuple[str, str]:
        return _END if self.at_end() else self._tokens[self._position]

    def _take(self, kind: str) -> str:
        found, text = self._peek()
        if found != kind:
            raise refuse_cpp(f"a {kind} is expected here", self._rest())
        self._position += 1
        return text

    def _require(self, mark: str) -> None:
        if not self.accepts(mark):
            raise refuse_cpp(f"`{mark}` is expected here", self._rest())

    def _rest(self) -> str:
        """Return the next few tokens, for a message."""
        return " ".join(text for _, text in self._tokens[self._position : self._position + 8]) or "the end"
