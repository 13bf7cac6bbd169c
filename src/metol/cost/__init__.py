"""The room of costs: feature rows enter, cost terms and predicted seconds leave.

The core evaluates the analytical model while it searches; here are the same terms for training and for people.
"""

from metol.cost.explanation import StageCost, TermCost, explain
from metol.cost.terms import ArrayModule, CostTerms
from metol.cost.weights import Member, Weights

__all__ = ["ArrayModule", "CostTerms", "Member", "StageCost", "TermCost", "Weights", "explain"]
