"""Public names of a package that are imported when first used: children that judge schedules start often.

Enters: where each name lives. Leaves: the package's `__getattr__`.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package.

    Args:
        package: its `__name__`.
        homes: the module of each public name.
    """

    def import_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        home = import_module(homes[name])
        # All at once: a module of that name (`metol.autoschedule`) takes the place of the name when it is imported.
        names = vars(sys.modules[package])
        names.update({other: getattr(home, other) for other in homes if homes[other] == homes[name]})
        return names[name]

    return import_name
