"""The file format of schedules: JSON with a format name and a version, one Func or directive a line.

Enters: a schedule, or the text of a file. Leaves: the text, or the schedule. Every version ever written can be read;
a file of another format or of a later version is refused with what to do.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from metol.errors import ScheduleFormatError
from metol.lower.directive import Argument, Call, Directive, RVar, Site, Tail, Var
from metol.lower.func_ref import FuncRef
from metol.lower.schedule_data import Estimate, Kept, Measured, ScheduleData

__all__ = ["FORMAT", "VERSION", "read_schedule", "schedule_identity", "write_schedule"]

FORMAT = "metol-schedule"
VERSION = 8
"""Version 2 adds `kept`, the Funcs that keep a schedule written by hand; version 3 the call `in`; version 4 `measured`,
how fast it was; version 5 the call `set_estimate`; version 6 the call `rename`; version 7 the
call `never_partition`; version 8 the call `bound_storage`."""

# What a version lacks has a default.
_READ_VERSIONS = (1, 2, 3, 4, 5, 6, 7, VERSION)

# Halide's coordinates, sizes and factors have 32 bits; the values of parameters 64, with or without a sign.
_COORDINATES = 1 << 31
_LEAST_VALUE, _GREATEST_VALUE = -(1 << 63), (1 << 64) - 1

S = TypeVar("S", bound=ScheduleData)


def write_schedule(schedule: ScheduleData) -> str:
    """Return the schedule as JSON, ending in a newline."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "metol_version": schedule.metol_version,
        "halide_version": schedule.halide_version,
        "target": schedule.target,
        "algorithm_hash": schedule.algorithm_hash,
        "measured": None if schedule.measured is None else asdict(schedule.measured),
    }
    lists: dict[str, list[Any]] = {
        "estimates": [_write_estimate(estimate) for estimate in schedule.estimates],
        "funcs": [_write_func(func) for func in schedule.funcs],
        "kept": [{"func": keep.func, "placement": keep.placement} for keep in schedule.kept],
        "directives": [_write_directive(directive) for directive in schedule.directives],
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in header.items()]
    lines += [f"  {json.dumps(key)}: {_write_lines(items)}" for key, items in lists.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _write_lines(items: list[Any]) -> str:
    if not items:
        return "[]"
    return "[\n" + ",\n".join(f"    {json.dumps(item)}" for item in items) + "\n  ]"


def _write_estimate(estimate: Estimate) -> dict[str, Any]:
    return {"name": estimate.name, "bounds": estimate.bounds, "value": estimate.value}


def _write_func(func: FuncRef) -> dict[str, Any]:
    written: dict[str, Any] = {"name": func.name, "types": func.types, "args": func.args}
    if func.rvars:
        written["updates"] = func.rvars
    if func.output >= 0:
        written["output"] = func.output
    return written


def _write_directive(directive: Directive) -> list[Any]:
    stage = [directive.func, directive.stage, *directive.branch]
    return [stage, directive.call.value, *(_write_argument(value) for value in directive.args)]


def _write_argument(value: Argument) -> Any:
    match value:
        case Var():
            return {"var": value.name}
        case RVar():
            return {"rvar": value.name}
        case Tail():
            return {"tail": value.value}
        case Site():
            loop = None if value.loop is None else _write_argument(value.loop)
            return {"at": [value.func, value.stage, loop]}
        case _:
            return value


def read_schedule(text: str, kind: type[S]) -> S:
    """Return the schedule that `text` holds, as an object of class `kind`.

    Raises:
        ScheduleFormatError: the text is not JSON, not a schedule, of an unknown version, or a wrong schedule.
    """
    document = _load_document(text)
    try:
        return _read_document(document, kind)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as wrong:
        # What is quoted may be anything; a terminal takes no half of a character.
        said = str(wrong).encode(errors="backslashreplace").decode()
        raise ScheduleFormatError(
            f"This schedule file is damaged: {type(wrong).__name__}: {said}. Restore it, or schedule the pipeline anew."
        ) from wrong


def schedule_identity(text: str) -> str:
    """Return a text that is the same for two files with equal schedules, whatever the versions of the files.

    Raises:
        ScheduleFormatError: the text is not JSON, not a schedule, or of an unknown version.
    """
    # An earlier version says the same with what it lacks left out.
    document = {"kept": [], **_load_document(text), "version": None, "measured": None}
    return json.dumps(document, sort_keys=True)


def _load_document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ScheduleFormatError(
            f"This is not a schedule file: it is not valid JSON ({wrong}). Give a file that Schedule.save() wrote."
        ) from wrong
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ScheduleFormatError(
            f'This is not a schedule file: it has no "format": "{FORMAT}". Give a file that Schedule.save() wrote.'
        )
    version = document.get("version")
    if version not in _READ_VERSIONS:
        raise ScheduleFormatError(
            f"This schedule file is of version {version!r}; this Metol reads version {VERSION}. Upgrade Metol, or "
            "schedule the pipeline anew with this one."
        )
    return document


def _read_document(document: dict[str, Any], kind: type[S]) -> S:
    return kind(
        funcs=tuple(_read_func(index, item) for index, item in enumerate(_list(document["funcs"]))),
        directives=tuple(_read_directive(item) for item in _list(document["directives"])),
        target=_text(document["target"]),
        estimates=tuple(_read_estimate(item) for item in _list(document["estimates"])),
        algorithm_hash=_text(document["algorithm_hash"]),
        halide_version=_text(document["halide_version"]),
        metol_version=_text(document["metol_version"]),
        kept=tuple(_read_kept(item) for item in _list(document.get("kept", []))),
        measured=_read_measured(document.get("measured")),
    )


def _read_measured(item: dict[str, Any] | None) -> Measured | None:
    if item is None:
        return None
    interval = item["interval_ms"]
    if not isinstance(item["is_cold"], bool):
        raise TypeError(f"{item['is_cold']!r} is neither true nor false")
    return Measured(
        run_ms=_number(item["run_ms"]),
        interval_ms=None if interval is None else _read_interval(interval),
        threads=_integer(item["threads"]),
        machine=_text(item["machine"]),
        cpu=_text(item["cpu"]),
        is_cold=item["is_cold"],
        made_at=_text(item["made_at"]),
    )


def _read_interval(item: Any) -> tuple[float, float]:
    low, high = _list(item)
    return _number(low), _number(high)


def _read_kept(item: dict[str, Any]) -> Kept:
    return Kept(func=_integer(item["func"]), placement=_text(item["placement"]))


def _read_estimate(item: dict[str, Any]) -> Estimate:
    bounds = tuple((_integer(low), _integer(extent)) for low, extent in _list(item["bounds"]))
    value = item["value"]
    if value is not None and not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    if isinstance(value, int) and not _LEAST_VALUE <= value <= _GREATEST_VALUE:
        raise ValueError(f"the value of {item['name']!r} has more than 64 bits")
    return Estimate(name=_text(item["name"]), bounds=bounds, value=value)


def _read_func(index: int, item: dict[str, Any]) -> FuncRef:
    return FuncRef(
        index=index,
        name=_text(item["name"]),
        args=_texts(item["args"]),
        rvars=tuple(_texts(names) for names in _list(item.get("updates", []))),
        types=_texts(item["types"]),
        output=_integer(item.get("output", -1)),
    )


def _read_directive(item: list[Any]) -> Directive:
    stage, call, *args = _list(item)
    func, index, *branch = (_integer(number) for number in _list(stage))
    return Directive(
        func=func, stage=index, call=Call(call), args=tuple(_read_argument(arg) for arg in args), branch=tuple(branch)
    )


def _read_argument(item: Any) -> Argument:
    if not isinstance(item, dict):
        return _text(item) if isinstance(item, str) else _integer(item)
    ((tag, value),) = item.items()
    if tag == "at":
        func, stage, loop = _list(value)
        return Site(_integer(func), _integer(stage), None if loop is None else _read_loop(loop))
    return Tail(value) if tag == "tail" else _read_loop(item)


def _read_loop(item: dict[str, Any]) -> Var | RVar:
    ((tag, name),) = item.items()
    kinds: dict[str, Callable[[str], Var | RVar]] = {"var": Var, "rvar": RVar}
    return kinds[tag](_text(name))


def _list(item: Any) -> list[Any]:
    if not isinstance(item, list):
        raise TypeError(f"{item!r} is not a list")
    return item


def _texts(item: Any) -> tuple[str, ...]:
    return tuple(_text(text) for text in _list(item))


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is not a text")
    item.encode()
    return item


def _number(item: Any) -> float:
    if not isinstance(item, int | float) or isinstance(item, bool):
        raise TypeError(f"{item!r} is not a number")
    return float(item)


def _integer(item: Any) -> int:
    if not isinstance(item, int) or isinstance(item, bool):
        raise TypeError(f"{item!r} is not an integer")
    if not -_COORDINATES <= item < _COORDINATES:
        raise ValueError("an integer has more than 32 bits")
    return item
