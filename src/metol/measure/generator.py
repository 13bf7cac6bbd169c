"""Pipelines from Generators in Halide's Python: a class decorated with `@hl.generator`.

Enters: the class and its GeneratorParams as text. Leaves: the pipeline it builds, as for an autoscheduler, so that a
Generator that asks `using_autoscheduler()` leaves its own schedule out. Halide offers no public way to build a
Generator without giving it inputs; these are the steps that its own command line takes.
"""

from typing import Any

from metol.errors import MetolError

__all__ = ["build_generator"]

_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no")


def build_generator(generator: Any, parameters: dict[str, str]) -> Any:
    """Return the `hl.Pipeline` that a Generator builds.

    Args:
        generator: the class.
        parameters: values of GeneratorParams, as on a command line.

    Raises:
        MetolError: there is no such parameter, a value is not of its type, or Halide refuses the Generator.
    """
    import halide as hl

    target = hl.get_host_target()
    try:
        with hl.GeneratorContext(target, hl.AutoschedulerParams("metol", {})):
            instance = generator()
            for name, text in parameters.items():
                instance._set_generatorparam_value(name, _value(generator, name, text))
            return instance._build_pipeline()
    except (hl.HalideError, ValueError) as error:
        raise MetolError(f"The Generator `{generator.__name__}` cannot be built: {error}") from error


def _value(generator: Any, name: str, text: str) -> bool | str:
    """Read a truth value, of which Halide would take any text as true; it reads all else from text itself."""
    import halide as hl

    default = getattr(generator, name, None)
    if not isinstance(default, hl.GeneratorParam) or not isinstance(default._value, bool):
        return text
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(f"`{name}` is true or false, not `{text}`.")
    return text.lower() in _TRUE
