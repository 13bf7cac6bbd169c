"""Greedy grouping of Funcs into the kernels of a GPU by an analytical model (Sioutas et al. 2020)."""

from metol.search.grouping.greedy import FUSION_MODES, Grouping

__all__ = ["FUSION_MODES", "Grouping"]
