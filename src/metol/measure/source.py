"""Where a pipeline comes from, as a value that any process can turn into the pipeline again.

In: text such as ``app:harris``, ``random:17``, ``FILE.py:function``, ``package.module:function`` or ``FILE.hlpipe``.
Out: a freshly built Halide Pipeline that carries no schedule. A child process never inherits a live pipeline:
it runs the builder again, or reads the serialized file.
"""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from metol.errors import MetolError

__all__ = ["PipelineSource", "SourceKind", "load_app"]


class SourceKind(str, Enum):
    """How a source is turned into a pipeline."""

    APP = "app"
    RANDOM = "random"
    FILE = "file"
    MODULE = "module"
    SERIALIZED = "serialized"


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """The recipe of a pipeline: small, hashable, and the same in every process."""

    kind: SourceKind
    """How `location` is to be read."""
    location: str
    """The name of the application, the seed of the random program and its options, the path of the file (absolute), or
    the dotted name of the module."""
    function: str = ""
    """The builder: a function without arguments that returns a Pipeline or a Func. Empty where none is needed."""

    @staticmethod
    def parse(text: str) -> "PipelineSource":
        """Read ``app:NAME`` (or just ``NAME``), ``FILE.py:FUNCTION``, ``package.module:FUNCTION`` or ``FILE.hlpipe``.

        ``random:SEED`` and ``random:SEED/most_funcs=N`` name a random program.

        Raises:
            MetolError: the text is none of these, or names a file that does not exist.
        """
        if text.endswith(".hlpipe"):
            return PipelineSource(SourceKind.SERIALIZED, _existing_file(text))
        place, _, name = text.rpartition(":")
        if place in ("", "app") and name:
            return PipelineSource(SourceKind.APP, name)
        if place == "random":
            _random_arguments(name)
            return PipelineSource(SourceKind.RANDOM, name)
        if not place or not name.isidentifier():
            raise MetolError(
                f"`{text}` names no pipeline; write app:NAME, FILE.py:FUNCTION, package.module:FUNCTION or FILE.hlpipe."
            )
        if place.endswith(".py"):
            return PipelineSource(SourceKind.FILE, _existing_file(place), name)
        return PipelineSource(SourceKind.MODULE, place, name)

    def __str__(self) -> str:
        if self.kind in (SourceKind.APP, SourceKind.RANDOM):
            return f"{self.kind.value}:{self.location}"
        return f"{self.location}:{self.function}" if self.function else self.location

    @property
    def label(self) -> str:
        """A short name for a table: the application's own, or the file's name without its folders."""
        if self.kind in (SourceKind.APP, SourceKind.RANDOM, SourceKind.MODULE):
            return self.location if self.kind is SourceKind.APP else str(self)
        name = Path(self.location).name
        return f"{name}:{self.function}" if self.function else name

    def build(self) -> Any:
        """Build the pipeline afresh: an `hl.Pipeline` of Funcs that nobody else holds.

        Raises:
            UnknownAppError: no application of that name.
            MetolError: the file, the module or the function does not exist, or returns something else than a pipeline.
        """
        import halide as hl

        if self.kind is SourceKind.SERIALIZED:
            from metol.measure.serialized import load_pipeline

            return load_pipeline(Path(self.location))
        if self.kind is SourceKind.RANDOM:
            from metol.pipeline.random_programs import random_program

            seed, limits = _random_arguments(self.location)
            return random_program(seed, **limits).pipeline
        built = load_app(self.location).build() if self.kind is SourceKind.APP else self._builder()()
        pipeline = hl.Pipeline(built) if isinstance(built, hl.Func) else built
        if not isinstance(pipeline, hl.Pipeline):
            raise MetolError(
                f"`{self}` returned a {type(built).__name__}; it must return an hl.Pipeline or an hl.Func."
            )
        return pipeline

    def _builder(self) -> Any:
        module = _import_file(Path(self.location)) if self.kind is SourceKind.FILE else _import_module(self.location)
        builder = getattr(module, self.function, None)
        if not callable(builder):
            names = sorted(
                n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__
            )
            raise MetolError(
                f"`{self.location}` has no function `{self.function}`; it has: {', '.join(names) or 'none'}."
            )
        return builder


def load_app(name: str) -> Any:
    """Return the application `name` of the suite.

    Raises:
        UnknownAppError: no application of that name.
    """
    return _import_module("metol_apps").get(name)


def _random_arguments(text: str) -> tuple[int, dict[str, int]]:
    """Read ``SEED`` or ``SEED/most_funcs=N`` as arguments of `random_program`.

    Raises:
        MetolError: the text is neither.
    """
    seed, *options = text.split("/")
    limits = dict(option.partition("=")[::2] for option in options)
    if not (seed.isdecimal() and set(limits) <= {"most_funcs"} and all(v.isdecimal() for v in limits.values())):
        raise MetolError(f"`random:{text}` names no program; write random:SEED or random:SEED/most_funcs=N.")
    return int(seed), {key: max(int(value), 2) for key, value in limits.items()}


def _existing_file(text: str) -> str:
    path = Path(text)
    if not path.is_file():
        raise MetolError(f"There is no file `{text}`; a pipeline source names an existing .py or .hlpipe file.")
    return str(path.resolve())


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module that was asked for is the user's mistake here; one that it imports in vain is told as it is.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise MetolError(
                f"There is no module `{name}`; install it, or run from the folder that holds it."
            ) from error
        raise


def _import_file(path: Path) -> ModuleType:
    """Import one Python file under its own name, with its folder on the path so that it finds its neighbours."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise MetolError(f"`{path}` cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
