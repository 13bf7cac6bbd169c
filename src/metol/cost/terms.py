"""The hand-designed cost terms of feature rows, for training: feature rows enter, [..., T] terms leave.

The expressions are those that the core was compiled from (`Space.term_table`), so that there is one definition of them.
Source: Adams et al. 2019, appendix B.
"""

from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

import numpy as np

from metol import _core

__all__ = ["ArrayModule", "CostTerms"]


class ArrayModule(Protocol):
    """What is needed of a library of arrays: NumPy has it, and so has PyTorch."""

    def where(self, condition: Any, x: Any, y: Any, /) -> Any:
        """Choose between `x` and `y`, element by element."""
        ...

    def ceil(self, x: Any, /) -> Any:
        """Round up."""
        ...

    def stack(self, arrays: Any, axis: int, /) -> Any:
        """Join arrays along a new axis."""
        ...


@dataclass(frozen=True, slots=True)
class CostTerms:
    """The terms of one Space, ready to be evaluated on arrays of feature rows."""

    names: tuple[str, ...]
    """Terms, in the order of the last axis of the result."""
    features: tuple[str, ...]
    """Columns of a feature row."""
    constants: tuple[tuple[str, float], ...]
    """Numbers of the machine that the expressions name."""
    _codes: tuple[CodeType, ...] = field(repr=False)
    _quantities: tuple[tuple[str, CodeType], ...] = field(repr=False)

    @staticmethod
    def of(space: _core.Space) -> "CostTerms":
        """Compile the terms that `space` declares."""
        table = space.term_table()
        return CostTerms(
            names=tuple(table),
            features=tuple(space.feature_table()),
            constants=tuple(space.term_constants().items()),
            _codes=tuple(_compile(name, expression) for name, (expression, _) in table.items()),
            _quantities=tuple((name, _compile(name, text)) for name, (text, _) in space.quantity_table().items()),
        )

    def evaluate(self, rows: Any, arrays: ArrayModule = np) -> Any:
        """Return the terms of feature rows.

        Args:
            rows: Features, [..., F]; the core reckons in float64.
            arrays: The library that `rows` is an array of, such as `numpy` or `torch`.

        Returns:
            Terms, [..., T], differentiable where the library is.
        """
        if rows.shape[-1] != len(self.features):
            raise ValueError(f"a feature row has {len(self.features)} columns, not {rows.shape[-1]}")
        names: dict[str, Any] = {
            **dict(self.constants),
            "ceil": arrays.ceil,
            "m": lambda x: arrays.where(x > 1, x, 1.0),
            "minimum": lambda a, b: arrays.where(a < b, a, b),
            "select": lambda condition, x, y: arrays.where(condition != 0, x, y),
        }
        names |= {name: rows[..., column] for column, name in enumerate(self.features)}
        for name, code in self._quantities:
            names[name] = eval(code, {"__builtins__": {}}, names)
        zero = rows[..., 0] * 0
        return arrays.stack([eval(code, {"__builtins__": {}}, names) + zero for code in self._codes], -1)


def _compile(name: str, expression: str) -> CodeType:
    """Compile an expression: what terms.def writes in C++ is an expression of Python, too."""
    return compile(expression, f"<term {name}>", "eval")
