"""The command `metol bench`: which measurement is wanted, of what, and where it goes.

In: words from a shell. Out: what `bench_runs.py` prints and writes, and exit code 1 where a schedule of Metol's is
wrong or fails, 3 where a GPU was asked for and there is none.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from metol.bench_runs import (
    Asked,
    Written,
    bench_every_size,
    bench_experiment,
    bench_options,
    bench_schedulers,
    bench_searches,
    bench_tails,
    bench_tuned,
)
from metol.destinations import require_writable
from metol.errors import MetolError
from metol.experiments import EXPERIMENTS, get_experiment

__all__ = ["SOURCE_HELP", "EstimatesFile", "FunctionName", "GeneratorParams", "Seed", "Threads", "bench"]

SOURCE_HELP = "app:NAME, random:SEED, FILE.py:FUNCTION or FILE.py:GENERATOR, package.module:FUNCTION or FILE.hlpipe"
Threads = Annotated[int, typer.Option(min=1, help="Threads that the schedule is made for and run with.")]
Seed = Annotated[int, typer.Option(help="Seed of whatever is random.")]
EstimatesFile = Annotated[
    Path | None, typer.Option("--estimates", help="Sizes and values that the pipeline does not tell, as JSON.")
]
GeneratorParams = Annotated[
    list[str] | None, typer.Option("--generator-param", help="NAME=VALUE for a Halide Generator; may be repeated.")
]
FunctionName = Annotated[
    str, typer.Option("--function", metavar="NAME", help="What the function of --python and --cpp is called.")
]

_APPS_HELP = f"Names of apps, {SOURCE_HELP}; FILE.py for all pipelines of a file; by default a suite."
_CPU_COLUMNS = "metol,adams2019,mullapudi2016"
_GPU_PEER_COLUMNS = "anderson2021,li2018,mullapudi2016"
_GPU_SEARCH_COLUMNS = f"metol-analytical,{_GPU_PEER_COLUMNS}"
# The bars of figure 6 of Sioutas et al. 2020, the most fusion first.
_GPU_COLUMNS = f"metol-analytical,metol-analytical-overlap,metol-analytical-no-fusion,{_GPU_PEER_COLUMNS}"


def bench(
    apps: Annotated[list[str] | None, typer.Argument(help=_APPS_HELP)] = None,
    suite: Annotated[
        str, typer.Option(help="Without names: core, thirteen applications, or full, all of them.")
    ] = "core",
    schedulers: Annotated[
        str | None,
        typer.Option(
            help="metol, adams2019, adams2019-greedy, mullapudi2016, reference, schedule:FILE.json or schedule:FOLDER, "
            "which has a file APP.json of each, and hand, what a person wrote: for an application of the suites, or in "
            "SCHEDULES of a Python file (docs/how_to.md); by "
            f"default {_CPU_COLUMNS}. With --gpu: metol-analytical (nested fusion), metol-analytical-overlap, "
            "metol-analytical-no-fusion, metol, anderson2021, li2018, mullapudi2016; by default all but metol."
        ),
    ] = None,
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu",
            help="Measure on this machine's NVIDIA GPU, with inputs and outputs on the device; exit code 3 where there "
            "is none. With --search-speed nothing runs on it.",
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of --gpu, in place of this machine's: opencl, or with --search-speed any GPU, such as a100.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="small|large", help="Other images: 192x320 or 3840x2160; matmul has 512 or 4096."),
    ] = None,
    search_speed: Annotated[
        bool, typer.Option("--search-speed", help="Measure the searches alone: candidates a second, time, memory.")
    ] = False,
    every_size: Annotated[
        bool, typer.Option("--every-size", help="Verify Metol's schedules, under every option, at awkward sizes.")
    ] = False,
    tails: Annotated[
        bool, typer.Option("--tails", help="Time Metol's schedules beside the same loop nests with unsafe tails.")
    ] = False,
    options: Annotated[
        bool, typer.Option("--options", help="Time Metol's schedules with each part of the search switched.")
    ] = False,
    experiment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="One of the papers' experiments, with a table, a plot and its data (docs/experiments.md): "
            f"{', '.join(EXPERIMENTS)}.",
        ),
    ] = None,
    programs: Annotated[
        int, typer.Option(min=1, help="Random programs of --experiment, from seed 100000 plus --seed on.")
    ] = 100,
    budget: Annotated[str, typer.Option(help="What --experiment may spend on tuning one pipeline.")] = "60s",
    plots: Annotated[
        Path, typer.Option(help="Where --experiment writes NAME.png and NAME.csv, and --gpu the roofline.")
    ] = Path("out/experiments"),
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="DB", help="Time the best schedules in this database of records beside Metol's and the peers'."
        ),
    ] = None,
    threads: Threads = 2,
    timeout: Annotated[float, typer.Option(help="Seconds for one scheduler on one app.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of timing at most; fewer where all have settled.")] = 25,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            help="Applications that are scheduled, compiled and verified at once, where there are cores and memory for "
            "it; each is then timed alone. Of a comparison of schedulers only.",
        ),
    ] = 1,
    seed: Seed = 0,
    json: Annotated[
        Path | None,
        typer.Option(
            help="Write all rows, the machine and the versions. With --every-size, --tails, --options and --tuned: "
            "append each row, and skip those in it; --experiment as well."
        ),
    ] = None,
    keep_rows: Annotated[
        bool,
        typer.Option(
            "--keep-rows",
            help="Of --experiment, take rows of --json that other code or another machine measured, too, and say so.",
        ),
    ] = False,
    markdown: Annotated[Path | None, typer.Option(help="Put the tables into this file, between its marks.")] = None,
) -> None:
    """Measure schedulers on apps, verified and in turn, and print one table."""
    from metol.bench import parse_sources
    from metol.measure import RunOptions, Scheduler, TimingPlan

    kinds = {
        "search-speed": search_speed,
        "every-size": every_size,
        "tails": tails,
        "options": options,
        "tuned": tuned,
        "experiment": experiment,
    }
    wanted = [kind for kind, is_wanted in kinds.items() if is_wanted]
    if jobs > 1 and wanted:
        raise MetolError(f"`--{wanted[0]}` takes one application after the other; leave `--jobs {jobs}` out.")
    if len(wanted) > 1:
        raise MetolError(f"`--{'` and `--'.join(wanted)}` are measurements of their own; ask for one at a time.")
    about = None if experiment is None else get_experiment(experiment)
    if apps and about and not about.takes_apps:
        raise MetolError(f"`--experiment {experiment}` has subjects of its own; leave `{' '.join(apps)}` out.")
    needs_device = about is not None and about.needs_device
    is_on_gpu = gpu or needs_device
    if gpu and not needs_device and wanted not in ([], ["search-speed"]):
        raise MetolError(f"`--{wanted[0]}` measures on the CPU; leave `--gpu` out.")
    require_writable(json)
    require_writable(markdown)
    sources = parse_sources(apps or (), suite, size)
    if schedulers is None:
        schedulers = (_GPU_SEARCH_COLUMNS if search_speed else _GPU_COLUMNS) if gpu else _CPU_COLUMNS
    columns = [Scheduler.parse(text) for text in schedulers.split(",") if text]
    if not wanted or search_speed:
        for column in columns:
            column.require_kind(is_gpu=gpu)
    bench_device = _device(device, is_wanted=is_on_gpu, is_run=not search_speed, threads=threads)
    timing = TimingPlan(min_rounds=min(5, rounds), max_rounds=rounds)
    run_options = RunOptions(threads=threads, timeout_seconds=timeout, seed=seed, timing=timing)
    asked = Asked(sources, run_options, columns, bench_device)
    measurements: dict[str, Callable[[Asked, Written], bool]] = {
        "search-speed": bench_searches,
        "every-size": bench_every_size,
        "tails": bench_tails,
        "options": bench_options,
    }
    if tuned is not None:
        measurements["tuned"] = partial(bench_tuned, database=tuned)
    if experiment is not None:
        from metol.tune import TuningBudget

        measurements["experiment"] = partial(
            bench_experiment,
            name=experiment,
            plots=plots,
            programs=programs,
            budget=TuningBudget.parse(budget),
            keeps_rows=keep_rows,
        )
    compare = partial(bench_schedulers, plots=plots, jobs=jobs)
    is_right = (measurements[wanted[0]] if wanted else compare)(asked, Written(json, markdown))
    if not is_right:
        raise typer.Exit(1)


def _device(name: str | None, *, is_wanted: bool, is_run: bool, threads: int) -> Any:
    """Return the `BenchDevice` that is asked for; None where none is.

    Raises:
        MetolError: one that is merely named cannot be run on, or there is none of that name.
        MissingDeviceError: this machine has none.
    """
    from metol.bench_device import wanted_device
    from metol.verification import require_device

    device = wanted_device(name, is_wanted=is_wanted, threads=threads)
    if device is None or not is_run:
        return device
    if device.is_here:
        require_device(device.target)
    else:
        raise MetolError(
            f"Schedules run on the GPU of this machine, and `--device {name}` merely names one; leave it out, or add "
            "`--search-speed` to compare searches for it."
        )
    return device
