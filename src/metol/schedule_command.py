"""The command `metol schedule`: finds a schedule, or takes one that was measured; writes it, and verifies it if asked.

In: words from a shell. Out: files, or Python on stdout; a summary on stderr; exit code 1 where the schedule is wrong,
3 where it is to be run and the target's device is missing. The first Ctrl-C settles for the best so far.
"""

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from metol.bench_command import SOURCE_HELP, EstimatesFile, FunctionName, GeneratorParams, Seed
from metol.console import say
from metol.destinations import require_writable, write_text
from metol.errors import MetolError
from metol.lower import FUNCTION_NAME, require_function_name
from metol.refusals import group_refusals

__all__ = ["schedule"]


def schedule(
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    python: Annotated[Path | None, typer.Option(help="Write the schedule as Python source.")] = None,
    cpp: Annotated[Path | None, typer.Option(help="Write the schedule as a C++ header.")] = None,
    json: Annotated[Path | None, typer.Option("--json", "-o", help="Write the schedule for `metol.load`.")] = None,
    function: FunctionName = FUNCTION_NAME,
    verify: Annotated[
        bool,
        typer.Option(
            help="Run it and compare with a plain schedule; for CUDA, compile its kernels, too (extra `cuda`), and run "
            "them on the GPU, or where there is none on one that is emulated."
        ),
    ] = False,
    strategy: Annotated[str, typer.Option(help="beam, greedy, random, mcts or batch; for GPUs grouping, too")] = "beam",
    beam_width: Annotated[
        int | None, typer.Option(help="States kept at each step of the beam search; by default as suits it.")
    ] = None,
    seed: Seed = 0,
    budget: Annotated[float, typer.Option(help="Seconds to search at most.")] = 5.0,
    fixed_sizes: Annotated[
        bool, typer.Option("--fixed-sizes", help="Outputs always have their estimated size; others are refused.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to schedule for; by default all.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Halide target, such as host, cuda or opencl; host, or cuda for a --gpu.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="GPU to schedule for, such as h200; where a target has a GPU and none is named, this machine's, or an "
            "RTX 2080 Ti if it has none."
        ),
    ] = None,
    estimates: EstimatesFile = None,
    keep: Annotated[list[str] | None, typer.Option(help="A Func that keeps its schedule; may be repeated.")] = None,
    generator_param: GeneratorParams = None,
    records: Annotated[
        Path | None,
        typer.Option(help="Take the best that was measured for this pipeline here; search if there is none."),
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Of --records: what `metol tune --cold` measured, with empty caches.")
    ] = False,
) -> None:
    """Find a schedule; print it as Python, or write it to the files named. Ctrl-C settles for the best so far."""
    import metol
    from metol.interrupts import first_interrupt, uninterrupted
    from metol.measure import PipelineSource
    from metol.pipeline import read_estimates
    from metol.targets import choose_machine, default_target, parse_target
    from metol.verification import require_means

    for path in (python, cpp, json):
        require_writable(path)
    require_function_name(function)
    if cold and records is None:
        raise MetolError("`--cold` chooses among `--records`; give them, or leave it out.")
    target = target or default_target(gpu)
    options = metol.SearchOptions(
        strategy=strategy, beam_width=beam_width, seed=seed, budget_seconds=budget, fixed_sizes=fixed_sizes
    )
    options.make(choose_machine(parse_target(target), gpu=gpu, threads=threads))  # complains before anything is built
    if verify:
        require_means(target)
    with first_interrupt(_tell_how_to_stop) as is_cancelled:
        pipeline_source = PipelineSource.parse(source).with_parameters(generator_param or [])
        sizes = None if estimates is None else read_estimates(estimates)
        pipeline_source.require_readable()
        pipeline = pipeline_source.build()
        known = None
        refused: tuple[str, ...] = ()
        kernels: tuple[Any, ...] = ()
        if records is not None and (unfit := _what_records_lack(keep, gpu)):
            say(f"no record is taken, for {unfit}; searching")
        elif records is not None:
            count = threads or len(os.sched_getaffinity(0))
            terms = {"threads": count, "fixed_sizes": fixed_sizes, "is_cold": cold}
            known = _best_record(records, pipeline_source, terms, target, sizes)
        if known is not None:
            found, remark = known.to_schedule(), f"record {known.uid}: measured at {known.run_ms:.4g} ms"
        else:
            result = metol.autoschedule(
                pipeline,
                target=target,
                estimates=sizes,
                gpu=gpu,
                options=options,
                threads=threads,
                verify="kernels" if verify and _can_assemble(target) else False,
                keep=keep or [],
                is_cancelled=is_cancelled,
            )
            found, remark, refused = result.schedule, result.summary(), result.fallbacks
            kernels = result.kernels
    with uninterrupted():
        if python is not None:
            write_text(python, found.to_python(function))
        if cpp is not None:
            write_text(cpp, found.to_cpp(function))
        if json is not None:
            write_text(json, found.to_json())
    if python is None and cpp is None and json is None:
        typer.echo(found.to_python(function))
    for reason in group_refusals(refused):
        say(f"[yellow]refused[/yellow]: {escape(reason)}")
    say(escape(remark))
    if verify:
        how: dict[str, Any] = {"gpu": gpu, "threads": threads, "sizes": sizes, "kernels": kernels}
        _verify(pipeline_source, found, **how)


def _what_records_lack(keep: list[str] | None, gpu: str | None) -> str:
    """Why no record answers for what is asked; "" where one may."""
    if keep:
        return "none goes with Funcs that are kept (`--keep`)"
    return "" if gpu is None else "all are of the GPU that is here, and not of one that is named (`--gpu`)"


def _best_record(path: Path, source: Any, terms: dict[str, Any], target: str, sizes: Any) -> Any:
    """The best that was measured for this pipeline on this machine; None where nothing was, or it does not fit."""
    from metol.errors import ExtractionError, ScheduleMismatchError
    from metol.tune import Records, SearchTerms, key_of

    found = None
    # What the search cannot describe, it answers for all the same.
    with Records(path, may_create=False) as database, contextlib.suppress(ExtractionError):
        pipeline = source.build()
        found = database.best(key_of(pipeline, SearchTerms(**terms), target=target, estimates=sizes))
    if found is not None:
        try:
            found.to_schedule().apply(pipeline)
        except ScheduleMismatchError as error:
            say(f"record {found.uid} does not fit: {escape(str(error))}")
            found = None
    if found is None:
        caches = "empty" if terms["is_cold"] else "warm"
        say(f"nothing was measured for this pipeline on this machine with {caches} caches; searching")
    return found


def _tell_how_to_stop() -> None:
    say("finishing with the best schedule found so far; Ctrl-C again gives up")


def _can_assemble(target: str) -> bool:
    """Whether kernels that spill registers can be told here, before the rest is verified."""
    from metol.errors import MissingToolError
    from metol.measure import find_ptxas
    from metol.verification import has_cuda

    if not has_cuda(target):
        return False
    with contextlib.suppress(MissingToolError):
        return bool(find_ptxas())
    return False


def _verify(source: Any, found: Any, *, threads: int | None, sizes: Any, **how: Any) -> None:
    from metol.measure import RunOptions, verify_schedule
    from metol.verification import has_cuda

    if has_cuda(found.target):
        _verify_kernels(source, found, threads=threads, sizes=sizes, **how)
        return
    options = RunOptions(threads=threads or len(os.sched_getaffinity(0)), target=found.target, timing=None)
    row = verify_schedule(source, found, options=options, estimates=sizes)
    if not row.verified:
        say(f"[red]not verified: {escape(row.problem)}[/red]")
        raise typer.Exit(1)
    say(f"[green]verified[/green]: {escape(row.detail)}")


def _verify_kernels(
    source: Any, found: Any, *, gpu: str | None, threads: int | None, sizes: Any, kernels: tuple[Any, ...]
) -> None:
    """Compile the kernels, where the search has not, show what each takes, and run them where there is a GPU."""
    from metol.framing import buffer_sizes, read_pipeline
    from metol.targets import choose_machine, parse_target
    from metol.verification import verify_for

    machine = choose_machine(parse_target(found.target), gpu=gpu, threads=threads)
    read = read_pipeline(source.build(), sizes, found.target)
    verification = verify_for(machine, source, found, sizes=buffer_sizes(read), estimates=sizes, kernels=kernels)
    for report in verification.launched:
        say(escape(report.text))
    if verification.refusal:
        say(f"[red]not verified: {escape(verification.refusal)}[/red]")
        raise typer.Exit(1)
    outcome = "verified" if verification.is_compared else "compiled"
    say(f"[green]{outcome}[/green]: {escape(verification.summary)}")
