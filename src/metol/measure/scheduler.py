"""Schedulers as values: Metol itself, Halide's own autoschedulers, a saved schedule, a person, or everything at root.

In: text such as ``metol``, ``adams2019-greedy``, ``metol:beam_width=8/seed=1``, ``schedule:FILE.json``,
``schedule:FOLDER`` or ``hand``, or for a GPU ``metol-analytical`` or ``anderson2021``, and an unscheduled pipeline.
Out: the pipeline, scheduled in place. Runs in a child process: Halide's own autoschedulers abort the process on an
error, and can take minutes.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metol.errors import MetolError
from metol.measure.at_root import schedule_at_root
from metol.measure.source import PipelineSource

__all__ = ["GPU_PEERS", "OWN", "PEERS", "Scheduler", "is_own"]

Option = int | float | bool | str


@dataclass(frozen=True, slots=True)
class _Peer:
    """One of the autoschedulers that come with Halide."""

    plugin: str
    """The library is `lib64/libautoschedule_<plugin>.so` of the Halide wheel."""
    halide_name: str
    """What Halide calls it once the library is loaded."""
    options: tuple[tuple[str, Option], ...] = ()
    """Options that differ from its defaults."""


PEERS: dict[str, _Peer] = {
    "adams2019": _Peer("adams2019", "Adams2019"),
    "adams2019-greedy": _Peer("adams2019", "Adams2019", (("beam_size", 1),)),
    "mullapudi2016": _Peer("mullapudi2016", "Mullapudi2016"),
}
"""Halide's own autoschedulers for CPUs, in the order of tables. Every one is told how many threads there are."""

GPU_PEERS: dict[str, _Peer] = {
    "anderson2021": _Peer("anderson2021", "Anderson2021"),
    "li2018": _Peer("li2018", "Li2018"),
    # The numbers are those of Mullapudi et al. 2016 for GPUs; 48 KiB are the shared memory of a block.
    "mullapudi2016": _Peer(
        "mullapudi2016",
        "Mullapudi2016",
        (("experimental_gpu_schedule", 1), ("parallelism", 128), ("last_level_cache_size", 48 * 2**10)),
    ),
}
"""Halide's own autoschedulers for targets with a GPU, in the order of tables. What the first two are to know of the GPU
they are told by options; `parallelism` is that of its multiprocessors."""

OWN: dict[str, tuple[tuple[str, Option], ...]] = {
    "metol": (),
    "metol-analytical": (("strategy", "grouping"),),
    "metol-analytical-overlap": (("strategy", "grouping"), ("fusion", "overlap")),
    "metol-analytical-no-fusion": (("strategy", "grouping"), ("fusion", "no-fusion")),
}
"""Metol itself, and for GPUs what Sioutas et al. 2020, figure 6, call AutoGPU in its three modes: fields of
`metol.SearchOptions`."""

_ALL_PEERS = tuple(dict.fromkeys((*PEERS, *GPU_PEERS)))
_NAMES = (*OWN, "reference", "exact-reference", "witness", "hand", *_ALL_PEERS)
# What Metol is told beside its options: the name of the GPU to schedule for.
_GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Something that schedules a pipeline, small enough to send to another process."""

    name: str
    """A name in `OWN`, `PEERS` or `GPU_PEERS`, ``reference``, ``exact-reference``, ``witness``, ``schedule`` or
    ``hand``."""
    options: tuple[tuple[str, Option], ...] = ()
    """For Metol the fields of `metol.SearchOptions`, and ``gpu``; for a peer its own parameters."""
    file: str = ""
    """The saved schedule, for ``schedule`` alone, or a folder that has one for each pipeline; for ``hand`` the pipeline
    that somebody has scheduled, as `PipelineSource.parse` reads it."""

    @staticmethod
    def parse(text: str) -> "Scheduler":
        """Read ``NAME``, ``NAME:option=value/option=value``, ``schedule:FILE.json``, ``schedule:FOLDER`` or ``hand``.

        Raises:
            MetolError: no such scheduler, a malformed option, or no such file.
        """
        name, _, rest = text.partition(":")
        if name == "schedule":
            if not (rest and Path(rest).exists()):
                raise MetolError(f"There is no schedule file `{rest}`; write schedule:FILE.json, or schedule:FOLDER.")
            return Scheduler.of_file(Path(rest).resolve())
        if name == "hand":
            return Scheduler("hand", file=rest)
        if name not in _NAMES:
            raise MetolError(f"There is no scheduler `{name}`; there are {', '.join(_NAMES)} and schedule:FILE.json.")
        return Scheduler(name, tuple(_parse_option(part, text) for part in rest.split("/") if part))

    @staticmethod
    def of_file(file: Path) -> "Scheduler":
        """Return the one that applies a saved schedule."""
        return Scheduler("schedule", file=str(file))

    def of_pipeline(self, source: PipelineSource) -> "Scheduler":
        """Return the one that a pipeline gets: of a folder of schedules, or of a person, its own, otherwise this one.

        The file in a folder is called like the pipeline in tables.

        Raises:
            MetolError: the folder has none for it.
        """
        label = source.label
        if self.name == "hand":
            return Scheduler("hand", file=str(source))
        folder = Path(self.file)
        if self.name != "schedule" or not folder.is_dir():
            return self
        file = folder / f"{label}.json"
        if not file.is_file():
            raise MetolError(f"There is no schedule of {label} in `{folder.name}`.")
        return Scheduler.of_file(file)

    @property
    def has_fixed_sizes(self) -> bool:
        """Whether its code is to refuse outputs of any size but the estimated one."""
        if self.name != "schedule":
            return bool(dict(self.options).get("fixed_sizes", False))
        from metol.lower import load

        return load(self.file).has_fixed_sizes

    @property
    def column(self) -> str:
        """What tables call it: as text, but a file below the working directory by the path from there."""
        text, here = str(self), Path.cwd()
        if self.file and Path(self.file).is_relative_to(here):
            return text.replace(self.file, str(Path(self.file).relative_to(here)))
        return text

    def __str__(self) -> str:
        rest = self.file or "/".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}:{rest}" if rest else self.name

    def kept(self) -> tuple[int, ...]:
        """Positions of the Funcs whose hand-written schedule a saved schedule relies on."""
        if self.name != "schedule":
            return ()
        from metol.lower import load

        return tuple(keep.func for keep in load(self.file).kept)

    @property
    def is_peer(self) -> bool:
        """Whether it is one of Halide's own autoschedulers."""
        return self.name in _ALL_PEERS

    def told(self, facts: Mapping[str, Option]) -> "Scheduler":
        """Return the same one with options about the machine, which those that it has take precedence over."""
        return replace(self, options=tuple({**facts, **dict(self.options)}.items()))

    def require_kind(self, *, is_gpu: bool) -> None:
        """Make sure that it makes schedules for GPUs, or for CPUs.

        Raises:
            MetolError: it does not.
        """
        if self.is_peer:
            _peer_of_kind(self.name, "", is_gpu=is_gpu)
        elif self.name == "hand" and is_gpu:
            raise MetolError("`hand` is what people wrote for CPUs, and the target has a GPU; leave it out.")
        elif not is_gpu and dict((*OWN.get(self.name, ()), *self.options)).get("strategy") == "grouping":
            raise MetolError(f"`{self}` makes kernels for a GPU, and there is none in the target; use `metol`.")

    def load(self) -> None:
        """Load what schedules: whoever times it means the schedule, not the import."""
        if self.is_peer:
            _load_peer((PEERS.get(self.name) or GPU_PEERS[self.name]).plugin)
        elif self.name in OWN:
            _ = importlib.import_module("metol").autoschedule

    def apply(self, pipeline: Any, target: Any, threads: int) -> tuple[int, float]:
        """Schedule `pipeline`, which carries no schedule, in place.

        Returns:
            How many candidates were costed, and the seconds that this took, where Metol searched; 0 for the others.

        Raises:
            MetolError: the schedule does not fit, the scheduler is none for such a target, or the search was asked for
                something impossible.
            RuntimeError: Halide rejected a directive or an option.
        """
        if self.name == "reference":
            schedule_at_root(pipeline)
        elif self.name == "exact-reference":
            from metol.measure.exact_sums import schedule_exactly

            schedule_exactly(pipeline)
        elif self.name == "witness":
            from metol.measure.witness import schedule_as_witness

            schedule_as_witness(pipeline, target)
        elif self.is_peer:
            _apply_peer(_peer_for(self.name, target), dict(self.options), pipeline, target, threads)
        elif self.name == "schedule":
            from metol.lower import load

            load(self.file).apply(pipeline)
        elif self.name == "hand":
            import halide as hl

            PipelineSource.parse(self.file).schedule_by_hand(pipeline, target.natural_vector_size(hl.Float(32)))
        else:
            # By name, for this room may not import the top level, which is known here only as one scheduler of several.
            metol = importlib.import_module("metol")
            options = {**dict(OWN[self.name]), **dict(self.options)}
            gpu = options.pop(_GPU, None)
            result = metol.autoschedule(
                pipeline, target=target, gpu=gpu, threads=threads, options=metol.SearchOptions(**options)
            )
            return int(result.candidates), float(result.costing_seconds)
        return 0, 0.0

    def peer_schedule(self, pipeline: Any, target: Any, threads: int) -> str:
        """Let a peer schedule `pipeline`, which carries no schedule, in place, and return its schedule in C++.

        Raises:
            RuntimeError: Halide rejected an option, or the autoscheduler gave up.
        """
        return _apply_peer(PEERS[self.name], dict(self.options), pipeline, target, threads)


def is_own(text: str) -> bool:
    """Whether a scheduler, as text, is Metol itself in one of its modes."""
    return text.partition(":")[0] in OWN


def _peer_for(name: str, target: Any) -> _Peer:
    """Return the autoscheduler of a name for a target; raises MetolError where it has nothing for such a one."""
    return _peer_of_kind(name, f", and the target is `{target.to_string()}`", is_gpu=target.has_gpu_feature())


def _peer_of_kind(name: str, target_text: str, *, is_gpu: bool) -> _Peer:
    peers, kind = (GPU_PEERS, "GPUs") if is_gpu else (PEERS, "CPUs")
    if name not in peers:
        raise MetolError(
            f"`{name}` schedules for {'CPUs' if is_gpu else 'GPUs'} alone{target_text}; "
            f"for {kind} there are {', '.join(peers)}."
        )
    return peers[name]


def _load_peer(plugin: str) -> None:
    import halide as hl

    hl.load_plugin(f"{hl.install_dir()}/lib64/libautoschedule_{plugin}.so")


def _apply_peer(peer: _Peer, options: dict[str, Option], pipeline: Any, target: Any, threads: int) -> str:
    """Let a peer schedule in place; the schedule, as C++."""
    import halide as hl

    _load_peer(peer.plugin)
    values = {"parallelism": threads, **dict(peer.options), **options}
    text = {key: str(value) for key, value in values.items()}
    results = pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(peer.halide_name, text))
    return str(results.schedule_source)


def _parse_option(part: str, text: str) -> tuple[str, Option]:
    key, equals, value = part.partition("=")
    if not (key.isidentifier() and equals and value):
        raise MetolError(f"`{part}` in scheduler `{text}` is not an option; write NAME:option=value/option=value.")
    readers: tuple[Callable[[str], Option], ...] = (int, float)
    for reader in readers:
        try:
            return key, reader(value)
        except ValueError:
            continue
    return key, {"true": True, "false": False}.get(value.lower(), value)
