"""The room that searches: a Space and a cost model enter, the loop nest of lowest predicted cost leaves.

A strategy is one short Python file over the batches of `metol._core.Space`; see `beam.py`.
"""

from metol.search.anneal import Annealed
from metol.search.batch import Batch
from metol.search.beam import BeamSearch, rare_dropout
from metol.search.discrepancy import Discrepancies, deviating
from metol.search.ensemble import Ensemble
from metol.search.form import Form, draw_place
from metol.search.frozen import Frozen
from metol.search.grouping import FUSION_MODES, Grouping, one_kernel_each, require_fusion_mode
from metol.search.monte_carlo import GUIDANCES, ROOT_CHOICES, SIMULATIONS, UCB_FORMS, MonteCarlo
from metol.search.random_search import RandomSearch
from metol.search.refine import Refined
from metol.search.restarts import Restarts
from metol.search.retried import AlikeInline, OffRoot, Restriction, Retried
from metol.search.rewriting import Rewriting, search_forms
from metol.search.sampled import Sampled
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = [
    "FUSION_MODES",
    "GUIDANCES",
    "ROOT_CHOICES",
    "SIMULATIONS",
    "UCB_FORMS",
    "AlikeInline",
    "Annealed",
    "Batch",
    "BeamSearch",
    "Budget",
    "Discrepancies",
    "Ensemble",
    "Form",
    "Frozen",
    "Grouping",
    "MonteCarlo",
    "OffRoot",
    "RandomSearch",
    "Refined",
    "Restarts",
    "Restriction",
    "Retried",
    "Rewriting",
    "Sampled",
    "SearchResult",
    "Strategy",
    "deviating",
    "draw_place",
    "one_kernel_each",
    "rare_dropout",
    "require_fusion_mode",
    "search_forms",
]
