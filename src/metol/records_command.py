"""The commands `metol records ...`: what has been measured, in and out of a database.

In: words from a shell. Out: tables and lines on stdout, files.
"""

import contextlib
import json as json_format
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from metol.bench_command import SOURCE_HELP, EstimatesFile, GeneratorParams
from metol.console import say, wide_console
from metol.destinations import require_writable, write_text
from metol.errors import MetolError

if TYPE_CHECKING:
    from metol.tune import Record

__all__ = ["records"]

records = typer.Typer(
    help="What was measured, in a database of records: list, show, export, import, merge, and take the best.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="The database of records.")]


@records.command("list")
def list_records(
    file: File,
    failures: Annotated[bool, typer.Option("--failures", help="Only what is of no use, with the reason.")] = False,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest last.")] = 40,
) -> None:
    """List what was measured, one line each."""
    from rich.table import Table

    from metol.tune import Records

    with Records(file, may_create=False) as database:
        found = [record for record in database.all() if not (failures and record.is_usable)]
    found.sort(key=lambda record: record.made_at)
    console = wide_console()
    digits = _telling_digits([record.uid for record in found]) if console.is_terminal else None
    table = Table("id", "pipeline", "sizes", "from", "status", "ms", "verified", "made", box=None)
    for column in table.columns:
        column.no_wrap, column.overflow = column.header in ("id", "ms", "made"), "fold"
    for record in found[-last:]:
        uid, *rest, made = _columns(record, show_detail=failures)
        minute = made[:16].replace("T", " ") if console.is_terminal else made
        table.add_row(uid[:digits], *map(escape, (*rest, minute)))
    console.print(table)
    if len(found) > last:
        say(f"the last {last} of {len(found)}; --last shows more")


@records.command()
def show(file: File, id: Annotated[str, typer.Argument(help="The id of a record, or how it begins.")]) -> None:
    """Show one record with its schedule, as Python."""
    from metol.tune import Records

    with Records(file, may_create=False) as database:
        record = database.find(id)
    for name, value in _facts(record):
        typer.echo(f"{name:>12}: {value}")
    if record.schedule:
        typer.echo(f"\n{record.to_schedule().to_python()}")


@records.command()
def export(
    file: File, output: Annotated[Path | None, typer.Argument(help="Where to write; stdout by default.")] = None
) -> None:
    """Write every record as one line of JSON, which `import` reads without loss."""
    from metol.interrupts import uninterrupted
    from metol.tune import Records, is_database

    require_writable(output)
    with Records(file, may_create=False) as database:
        text = "".join(f"{line}\n" for line in database.export())
    if output is None:
        typer.echo(text, nl=False)
        return
    if is_database(output):
        raise MetolError(f"`{output}` is a database; `metol records merge` reads one into another.")
    with uninterrupted():
        write_text(output, text)
    say(f"wrote {text.count(chr(10))} records to {escape(str(output))}")


@records.command("import")
def import_records(
    file: File, inputs: Annotated[list[Path], typer.Argument(help="Files of JSON lines; - for stdin.")]
) -> None:
    """Read records that were exported; those that are there already are passed over."""
    from metol.tune import Record, Records

    # All of them before a database is made of them.
    found = [Record.from_line(line) for path in inputs for line in _read(path).splitlines() if line.strip()]
    with Records(file) as database:
        _tell(database.add(*found), len(found))


@records.command()
def merge(file: File, others: Annotated[list[Path], typer.Argument(help="Databases to read.")]) -> None:
    """Read all records of other databases; doing so again changes nothing."""
    from metol.tune import Records

    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(Records(path, may_create=False)) for path in others]
        database = stack.enter_context(Records(file))
        for source in sources:
            found = source.all()
            _tell(database.add(*found), len(found))


@records.command()
def best(
    file: File,
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that it runs with; by default all.")] = None,
    target: Annotated[str, typer.Option(help="Halide target, such as host.")] = "host",
    fixed_sizes: Annotated[
        bool, typer.Option("--fixed-sizes", help="Outputs always have their estimated size; others are refused.")
    ] = False,
    cold: Annotated[bool, typer.Option("--cold", help="What `metol tune --cold` measured, with empty caches.")] = False,
    estimates: EstimatesFile = None,
    generator_param: GeneratorParams = None,
    json: Annotated[Path | None, typer.Option("--json", "-o", help="Write the schedule for `metol.load`.")] = None,
) -> None:
    """Show the fastest schedule that was measured for a pipeline on this machine; exit code 1 where there is none."""
    from metol.measure import PipelineSource
    from metol.pipeline import read_estimates
    from metol.tune import Records, SearchTerms, key_of

    require_writable(json)
    pipeline = PipelineSource.parse(source).with_parameters(generator_param or [])
    pipeline.require_readable()
    sizes = None if estimates is None else read_estimates(estimates)
    terms = SearchTerms(threads or len(os.sched_getaffinity(0)), fixed_sizes, is_cold=cold)
    with Records(file, may_create=False) as database:
        found = database.best(key_of(pipeline.build(), terms, target=target, estimates=sizes))
    if found is None:
        caches = "empty" if cold else "warm"
        say(
            f"no schedule of {escape(source)} for {terms.threads} threads was measured on this machine with {caches} "
            "caches"
        )
        raise typer.Exit(1)
    for name, value in _facts(found):
        typer.echo(f"{name:>12}: {value}")
    if json is not None:
        found.to_schedule().save(json)
        say(f"wrote {escape(str(json))}")


def _telling_digits(uids: Sequence[str]) -> int:
    """How many digits tell each record from all others, and are not too few to be taken for something else."""
    known = set(uids)
    return next((n for n in range(6, 20) if len({uid[:n] for uid in known}) == len(known)), 20)


def _read(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetolError(f"`{path}` cannot be read: {error}.") from error


def _tell(new: int, count: int) -> None:
    say(f"{new} new, {count - new} known")


def _sizes(record: "Record") -> str:
    """The estimated extents of what is scheduled, and the values of parameters."""
    texts = []
    for name, value in json_format.loads(record.key.estimates):
        size = "x".join(str(extent) for _, extent in value) if isinstance(value, list) else ""
        texts.append(f"{name} {size or 'scalar'}" if isinstance(value, list) else f"{name}={value}")
    return ", ".join(texts)


def _columns(record: "Record", *, show_detail: bool) -> tuple[str, ...]:
    milliseconds = "" if record.run_ms is None else f"{record.run_ms:.4g}"
    status = f"{record.status.value}: {record.detail}" if show_detail else record.status.value
    return (
        record.uid,
        record.label,
        _sizes(record),
        record.origin + (", final" if record.is_final else ""),
        status,
        milliseconds,
        "yes" if record.is_verified else "no",
        record.made_at,
    )


def _facts(record: "Record") -> list[tuple[str, Any]]:
    interval = "" if record.interval_ms is None else " ({:.4g} to {:.4g})".format(*record.interval_ms)
    machine = ", ".join(f"{name} {value}" for name, value in record.machine.items())
    facts = {
        "id": record.uid,
        "pipeline": record.label,
        "sizes": _sizes(record),
        "from": record.origin,
        "status": record.status.value,
        "detail": record.detail,
        "run": "" if record.run_ms is None else f"{record.run_ms:.4g} ms{interval}",
        "predicted": "" if record.predicted_seconds is None else f"{record.predicted_seconds * 1e3:.4g} ms",
        "verified": "yes" if record.is_verified else "no",
        "machine": machine or record.key.machine,
        "target": record.key.target,
        "made": f"{record.made_at} by Metol {record.metol_version}, Halide {record.key.halide_version}",
    }
    return [(name, value) for name, value in facts.items() if value]
