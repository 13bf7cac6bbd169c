"""What the function of a schedule's source may be called: one name for Python and for C++.

Enters: a name. Leaves: nothing, or an error.
"""

import keyword

from metol.errors import MetolError
from metol.lower.cpp_words import CPP_WORDS

__all__ = ["FUNCTION_NAME", "require_function_name"]

FUNCTION_NAME = "apply_schedule"
"""What it is called where nobody says otherwise."""

# What else the Python module has.
_IN_MODULE = ("hl", "count_funcs")


def require_function_name(name: str) -> None:
    """Raise MetolError where a name is none for a function in Python and in C++."""
    is_identifier = name.isascii() and name.isidentifier()
    if not is_identifier or keyword.iskeyword(name) or name in CPP_WORDS or name in _IN_MODULE:
        raise MetolError(
            f"A function of Python and C++ cannot be called `{name}`; give a name such as `schedule_avx2`."
        )
