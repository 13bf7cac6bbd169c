"""The packages that training needs, and Metol itself does not."""

from importlib.util import find_spec

from metol.errors import MetolError

__all__ = ["require_extra"]

_PACKAGES = ("torch", "sklearn", "matplotlib")


def require_extra() -> None:
    """Raise MetolError where packages of the extra `train` are missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MetolError(
            f"Fitting needs {', '.join(missing)}; install them with `pip install .[train]` in Metol's checkout."
        )
