"""Where a pipeline comes from, as a value that any process can turn into the pipeline again.

In: text such as ``app:harris``, ``app:harris?size=small``, ``random:17``, ``FILE.py:function``,
``package.module:function`` or ``FILE.hlpipe``.
A class decorated with `@hl.generator` may stand in place of the function, with parameters:
``FILE.py:Blur?radius=3&wide=true``.
Out: a freshly built Halide Pipeline that carries no schedule. A child process never inherits a live pipeline:
it runs the builder again, or reads the serialized file.
"""

import contextlib
import importlib
import importlib.util
import inspect
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from metol.errors import BuilderError, MetolError
from metol.measure.generator import build_generator
from metol.pipeline import EstimateMap

__all__ = ["PipelineSource", "SourceKind", "load_app", "stored_source"]


# What may be said of a random program, and the least that makes sense.
_RANDOM_OPTIONS = {"least_funcs": 2, "most_funcs": 2, "size": 1}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What an annotation of a builder is where `from __future__ import annotations` leaves it unevaluated.
_ANNOTATIONS = tuple(f"{module}{name}" for module in ("hl.", "halide.", "") for name in ("Pipeline", "Func"))


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
    """The builder: a function without arguments that returns a Pipeline or a Func, or a Halide Generator. Empty where
    none is needed."""
    parameters: tuple[tuple[str, str], ...] = ()
    """GeneratorParams by name; of an application its ``size``, where it is not the usual one."""

    @staticmethod
    def parse(text: str) -> "PipelineSource":
        """Read ``app:NAME`` (or just ``NAME``), ``FILE.py:FUNCTION``, ``package.module:FUNCTION`` or ``FILE.hlpipe``.

        ``random:SEED``, with ``/least_funcs=M``, ``/most_funcs=N`` and ``/size=K`` if need be, is a random program.

        Raises:
            MetolError: the text is none of these, or names a file that does not exist.
        """
        if text.endswith(".hlpipe"):
            return PipelineSource(SourceKind.SERIALIZED, _existing_file(text))
        location, _, query = text.partition("?")
        if location.endswith(".py"):
            raise MetolError(f"`{text}` names no function; write {location}:FUNCTION, one that returns the pipeline.")
        place, _, name = location.rpartition(":")
        parameters = tuple(_parse_parameter(part) for part in query.split("&") if part)
        if place in ("", "app") and name:
            return PipelineSource(SourceKind.APP, name, parameters=parameters)
        if place == "random":
            _random_arguments(name)
            return PipelineSource(SourceKind.RANDOM, name)
        if not place or not name.isidentifier():
            raise MetolError(
                f"`{text}` names no pipeline; write app:NAME, FILE.py:FUNCTION, package.module:FUNCTION or FILE.hlpipe."
            )
        if place.endswith(".py"):
            return PipelineSource(SourceKind.FILE, _existing_file(place), name, parameters)
        return PipelineSource(SourceKind.MODULE, place, name, parameters)

    @staticmethod
    def parse_all(text: str) -> "tuple[PipelineSource, ...]":
        """Read what `parse` reads, and ``FILE.py`` as every pipeline of that file.

        That is each Generator, and each public function without arguments that is annotated to return a pipeline or
        a Func, in the order of the file.

        Raises:
            MetolError: the text is neither, or the file has no such function.
            BuilderError: the code of the file raises an exception.
        """
        if not text.endswith(".py"):
            return (PipelineSource.parse(text),)
        whole = PipelineSource(SourceKind.FILE, _existing_file(text))
        module = whole._module()
        builders = {
            id(value): name
            for name, value in reversed(vars(module).items())
            if not name.startswith("_") and _returns_pipeline(value, module.__name__)
        }
        names = list(reversed(builders.values()))  # each once, by its first name
        if not names:
            raise MetolError(
                f"`{text}` has no Generator, and no public function without arguments that is annotated to return "
                f"hl.Pipeline or hl.Func; write {text}:FUNCTION to name one without an annotation."
            )
        return tuple(replace(whole, function=name) for name in names)

    def with_parameters(self, texts: Sequence[str]) -> "PipelineSource":
        """Return the source with GeneratorParams, each given as ``NAME=VALUE``; raises MetolError for other text."""
        return replace(self, parameters=self.parameters + tuple(map(_parse_parameter, texts)))

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.parameters)
        if self.kind in (SourceKind.APP, SourceKind.RANDOM):
            whole = f"{self.kind.value}:{self.location}"
            return f"{whole}?{query}" if query else whole
        whole = f"{self.location}:{self.function}" if self.function else self.location
        return f"{whole}?{query}" if query else whole

    @property
    def label(self) -> str:
        """A short name for a table: the application's own, or the file's name without its folders."""
        if self.kind in (SourceKind.APP, SourceKind.RANDOM, SourceKind.MODULE):
            return str(self).removeprefix(f"{SourceKind.APP.value}:")
        name = Path(self.location).name
        return f"{name}:{self.function}" if self.function else name

    def build(self) -> Any:
        """Build the pipeline afresh: an `hl.Pipeline` of Funcs that nobody else holds.

        Raises:
            UnknownAppError: no application of that name.
            BuilderError: the code of the file, the module or the function raises an exception.
            MetolError: there is no such file, module or function, or it returns something else than a pipeline.
        """
        import halide as hl

        if self.kind is SourceKind.SERIALIZED:
            from metol.measure.serialized import load_pipeline

            return load_pipeline(Path(self.location))
        if self.kind is SourceKind.RANDOM:
            from metol.pipeline.random_programs import random_program

            seed, limits = _random_arguments(self.location)
            return random_program(seed, **limits).pipeline
        built = self._build_app() if self.kind is SourceKind.APP else self._run_builder()
        pipeline = hl.Pipeline(built) if isinstance(built, hl.Func) else built
        if not isinstance(pipeline, hl.Pipeline):
            raise MetolError(
                f"`{self}` returned a {type(built).__name__}; it must return an hl.Pipeline or an hl.Func."
            )
        return pipeline

    def require_readable(self) -> None:
        """Read a file of Halide's in a child, which what is damaged ends, before this process does.

        Raises:
            MetolError: the child did not survive, or Halide refuses the file.
        """
        if self.kind is not SourceKind.SERIALIZED:
            return
        code = (
            "import sys; from pathlib import Path; from metol.measure.serialized import load_pipeline; "
            "load_pipeline(Path(sys.argv[1])).infer_arguments()"
        )
        done = subprocess.run([sys.executable, "-c", code, self.location], capture_output=True, text=True, check=False)
        if done.returncode < 0:
            ended_by = signal.Signals(-done.returncode).name
            raise MetolError(f"`{self.location}` is damaged, or no pipeline: reading it ends Halide with {ended_by}.")
        if done.returncode > 0:
            *_, said = done.stderr.strip().splitlines() or [""]
            raise MetolError(said.removeprefix("metol.errors.MetolError: "))

    def app(self) -> Any:
        """Return the application, at its size; for that kind alone.

        Raises:
            UnknownAppError: no application of that name, or none of that size.
            MetolError: it has other parameters than ``size``.
        """
        app = load_app(self.location)
        for name, value in self.parameters:
            if name != "size":
                raise MetolError(f"`{self}` has a parameter `{name}`; applications have `size` alone.")
            app = app.at_size(value)
        return app

    def schedule_by_hand(self, pipeline: Any, lanes: int) -> None:
        """Schedule the pipeline in place as a person wrote it.

        That is, for an application, the suites' own schedule. Beside a function in a Python file or module it is an
        entry of its dict ``SCHEDULES``: under the name of the function what takes the Funcs by name and `lanes`.

        Args:
            pipeline: What `build` made, without a schedule.
            lanes: 32-bit values in a native vector.

        Raises:
            MetolError: nobody has written a schedule for it.
            BuilderError: the code of the file, the module or the schedule raises an exception.
        """
        from metol_apps.by_hand import named_funcs, schedule_by_hand

        if self.kind is SourceKind.APP:
            schedule_by_hand(self.location, pipeline, lanes)
            return
        if self.kind not in (SourceKind.FILE, SourceKind.MODULE):
            raise MetolError(f"`{self}` has no schedule by hand; applications and functions in Python files may.")
        schedules = getattr(self._module(), "SCHEDULES", {})
        if not isinstance(schedules, Mapping) or self.function not in schedules:
            raise MetolError(
                f"`{self.location}` has no schedule by hand of `{self.function}`; write SCHEDULES = "
                f'{{"{self.function}": schedule}}, where schedule(funcs, lanes) gets the Funcs by name.'
            )
        with _author_code(str(self)):
            schedules[self.function](named_funcs(pipeline), lanes)

    def _build_app(self) -> Any:
        from metol.measure.serialized import load_pipeline, save_pipeline

        app = self.app()
        pipeline = app.build()
        if not self.parameters:
            return pipeline
        # Whoever schedules reads the sizes in the pipeline, and a builder has set those of its usual size.
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            file = Path(folder) / "resized.hlpipe"
            save_pipeline(pipeline, file, app.estimates())
            return load_pipeline(file)

    def _run_builder(self) -> Any:
        import halide as hl

        builder = self._builder()
        if isinstance(builder, type) and issubclass(builder, hl.Generator):
            return build_generator(builder, dict(self.parameters))
        if self.parameters:
            raise MetolError(f"`{self.location}:{self.function}` is no Halide Generator, and takes no parameters.")
        self._require_no_arguments(builder)
        with _author_code(str(self)):
            return builder()

    def _require_no_arguments(self, builder: Callable[..., Any]) -> None:
        try:
            inspect.signature(builder).bind()
        except TypeError as error:
            raise MetolError(
                f"`{self.location}:{self.function}` is called without arguments, and wants some: {error}."
            ) from error
        except ValueError:  # of what is not written in Python nothing is known
            return

    def _builder(self) -> Any:
        module = self._module()
        builder = getattr(module, self.function, None)
        if not callable(builder):
            names = sorted(name for name, value in vars(module).items() if _is_builder(value, module.__name__))
            raise MetolError(
                f"`{self.location}` has no function `{self.function}`; it has: {', '.join(names) or 'none'}."
            )
        return builder

    def _module(self) -> ModuleType:
        with _author_code(self.location):
            return _import_file(Path(self.location)) if self.kind is SourceKind.FILE else _import_module(self.location)


def stored_source(pipeline: Any, folder: Path, estimates: EstimateMap | None = None) -> PipelineSource:
    """Return what a child process can make a pipeline from.

    Args:
        pipeline: An `hl.Pipeline`, or its `PipelineSource`.
        folder: Where it is written, if need be.
        estimates: Sizes and values that it does not tell.
    """
    from metol.measure.serialized import save_pipeline

    if isinstance(pipeline, PipelineSource) and not estimates:
        return pipeline
    file = folder / "pipeline.hlpipe"
    save_pipeline(pipeline.build() if isinstance(pipeline, PipelineSource) else pipeline, file, estimates)
    return PipelineSource(SourceKind.SERIALIZED, str(file))


def load_app(name: str) -> Any:
    """Return the application `name` of the suite.

    Raises:
        UnknownAppError: no application of that name.
    """
    return _import_module("metol_apps").get(name)


def _random_arguments(text: str) -> tuple[int, dict[str, int]]:
    """Read ``SEED`` or ``SEED/most_funcs=N`` and the like as arguments of `random_program`.

    Raises:
        MetolError: the text is neither.
    """
    seed, *options = text.split("/")
    limits = dict(option.partition("=")[::2] for option in options)
    if not (seed.isdecimal() and set(limits) <= set(_RANDOM_OPTIONS) and all(v.isdecimal() for v in limits.values())):
        raise MetolError(
            f"`random:{text}` names no program; write random:SEED or random:SEED/most_funcs=N; there are "
            f"{', '.join(_RANDOM_OPTIONS)}."
        )
    return int(seed), {key: max(int(value), _RANDOM_OPTIONS[key]) for key, value in limits.items()}


def _is_builder(value: Any, module: str) -> bool:
    """Is this a function or a class of the module itself? The decorator of Generators makes a class of its own."""
    is_generator = hasattr(value, "_halide_registered_name") and hasattr(value, "generate")
    return is_generator or (callable(value) and getattr(value, "__module__", None) == module)


def _returns_pipeline(value: Any, module: str) -> bool:
    import halide as hl

    if isinstance(value, type):
        return issubclass(value, hl.Generator) and _is_builder(value, module)
    if not inspect.isfunction(value) or value.__module__ != module:
        return False
    signature = inspect.signature(value)
    needs_none = all(one.default is not one.empty or one.kind in _VARIADIC for one in signature.parameters.values())
    return needs_none and signature.return_annotation in (hl.Pipeline, hl.Func, *_ANNOTATIONS)


def _parse_parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise MetolError(f"`{text}` is no GeneratorParam; write NAME=VALUE.")
    return name, value


def _existing_file(text: str) -> str:
    path = Path(text)
    if not path.is_file():
        raise MetolError(f"There is no file `{text}`; a pipeline source names an existing .py or .hlpipe file.")
    return str(path.resolve())


@contextlib.contextmanager
def _author_code(name: str) -> Iterator[None]:
    """Run code of the user's: what it prints is none of our output, and its end is not ours."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as end:
        raise MetolError(f"`{name}` ended Python (`sys.exit({end.code!r})`) and built no pipeline.") from end
    except MetolError:
        raise
    except Exception as error:
        raise BuilderError(f"`{name}` cannot be built: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What Python would print of an exception, without the frames that are not the author's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    what = "".join(traceback.format_exception_only(error)).strip()
    return "\n".join([what, *(line.rstrip() for line in traceback.format_list(frames))])


def _is_ours(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib")


def _import_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:  # as of a script there is none
        sys.path.append(str(Path.cwd()))
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
    """Import one Python file under its own name, with its folder on the path so that it finds its neighbours.

    Once a process, as any module: Halide refuses to register a Generator twice. What is called like another module, or
    like one of the standard library, takes nobody's place.
    """
    name = path.stem
    known = sys.modules.get(name)
    if name in sys.stdlib_module_names or (known is not None and getattr(known, "__file__", None) != str(path)):
        name = f"{path}"
        known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MetolError(f"`{path}` cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
