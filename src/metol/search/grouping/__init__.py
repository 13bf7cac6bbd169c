"""Greedy grouping of Funcs into the kernels of a GPU by an analytical model (Sioutas et al. 2020)."""

from metol.search.grouping.greedy import FUSION_MODES, Grouping, require_fusion_mode
from metol.search.grouping.kernels import one_kernel_each

__all__ = ["FUSION_MODES", "Grouping", "one_kernel_each", "require_fusion_mode"]
