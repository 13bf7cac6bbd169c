"""What a user can choose about a search, checked once."""

from dataclasses import dataclass

from metol import _core
from metol.errors import SearchError
from metol.lower import LoweringOptions
from metol.search import (
    AlikeInline,
    Annealed,
    Batch,
    BeamSearch,
    Frozen,
    Grouping,
    MonteCarlo,
    OffRoot,
    RandomSearch,
    Refined,
    Restarts,
    Restriction,
    Retried,
    Sampled,
    Strategy,
    deviating,
    require_fusion_mode,
)
from metol.targets import Machine
from metol.targets.gpu import GpuMachine

__all__ = ["STRATEGIES", "SearchOptions"]

STRATEGIES = ("beam", "greedy", "random", "mcts", "batch", "grouping")
"""Names of the search strategies; `batch` is meant for GPUs, `grouping` is for them alone."""

# Of the beam that descent, deviations, restarts and annealing follow on a CPU.
_CPU_WIDTH = 16
_CPU_PASSES = 3
# Of annealing's first walk, times the decisions: on a GPU tiles of several Stages change together or not at all.
_CPU_SWEEPS = 10
_GPU_SWEEPS = 40
# Everywhere else: Adams et al. 2019, §3.2 and §6.1; Anderson et al. 2021, §6.
_PUBLISHED = BeamSearch()


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search."""

    strategy: str = "beam"
    """One of STRATEGIES."""
    beam_width: int | None = None
    """States that the beam keeps, also that of `batch` and that before the trees of `mcts`. If None, 32 as published,
    but 16 for `beam` on a CPU: there what follows it finds in less time what twice the width adds."""
    passes: int | None = None
    """Coarse-to-fine passes. If None, 5 as published, but 3 for `beam` on a CPU."""
    searches: int = 80
    """Searches of the strategy `batch`: a beam, and greedy ones that pass candidates over at random."""
    dropout: float = 0.0
    """Chance that a state is passed over."""
    samples: int = 1
    """Loop nests that the strategy `random` draws."""
    trees: int = 16
    """Trees of the strategy `mcts`, which agree on one decision after the other."""
    greedy_trees: int = 1
    """Of these, those whose simulations take the best child at each step."""
    ucb: str = "product"
    """How these trees weigh exploration, one of `metol.search.UCB_FORMS`."""
    guidance: str = "best"
    """What a child is worth to them, one of `metol.search.GUIDANCES`."""
    simulation: str = "repeat"
    """How the trees that are not greedy complete a loop nest, one of `metol.search.SIMULATIONS`."""
    root_choice: str = "best"
    """By what they choose the next root, one of `metol.search.ROOT_CHOICES`."""
    fusion: str = "nested"
    """What the strategy `grouping` makes of kernels, one of `metol.search.FUSION_MODES`."""
    tree_iterations: int | None = None
    """Iterations of each tree at each decision; the budget's time, evenly over all decisions, if None."""
    seed: int = 0
    """Seed of whatever is random."""
    rfactor: bool = True
    """Whether updates may be computed in two steps, so that reductions run in parallel or in vectors."""
    staging: bool = True
    """Whether what a Func reads again and again, or across its rows, may be copied for it, as by Halide's `in`. On a
    GPU what points of a block share, into shared memory or registers; not by `grouping`."""
    refine: bool = True
    """Whether coordinate descent follows the search; a beam then starts it from what narrower ones find, too."""
    discrepancies: bool = True
    """Whether what descent ends with has one decision after the other changed, and all that follow it made anew."""
    restarts: bool = True
    """Whether narrow beams that pass over candidates at random follow, each with coordinate descent."""
    off_root: bool = True
    """Whether costly Funcs at root in what was found are kept from there, one after the other, to see what else there
    is; on a CPU."""
    inline_alike: bool = True
    """Whether Funcs that are computed in what was found, and alike, are made inline together, one kind after the other,
    to see what else there is; on a CPU."""
    anneal: bool = True
    """Whether simulated annealing goes on from what was found: it changes several decisions together."""
    sampling: bool | None = None
    """Whether the wide beam looks at a sample of the candidates alike: a tenth less time on the largest pipelines, at
    a few per cent of predicted cost. Of `batch`, whether every search does. If None, of `batch` alone."""
    freezing: bool | None = None
    """Whether descent starts also from what a beam finds that decides about the costliest Funcs alone. Of `batch`,
    whether every search decides about them alone, after a pre-pass. If None, of `batch` alone."""
    memoization: bool = True
    """Whether what a loop nest is made of is featurized once, however many loop nests have it: without, each is
    featurized whole; what is found is the same."""
    sliding: bool = True
    """Whether a Func may be stored further out than it is computed, so that nothing is computed twice."""
    reductions: bool = True
    """Whether reduction loops may be unrolled, blocked and moved out of the loops over points. Steps that are unrolled
    may be lanes of vectors, which Halide adds up: in another order, also of floats, unless the target says
    `strict_float`."""
    vector_widths: bool = True
    """Whether vectors may be native for the narrowest type of a Stage as well as for the widest."""
    storage: bool = True
    """Whether storage may lie on the stack or be allocated once a task."""
    nested_tiling: bool = True
    """Whether Funcs may be computed in tiles of tiles."""
    nested_parallel: bool = True
    """Whether loops below root may be parallel."""
    fuse: bool = True
    """Whether Stages that read the same may share their outer loops, and outputs all of theirs, with what they read
    inside (Halide's `compute_with`)."""
    align_storage: bool = False
    """Whether rows of what is computed may be padded to whole vectors, so that none crosses a cache line."""
    prefetch: bool = False
    """Whether loops that go from row to row of a Func at root may ask for what their next iteration reads."""
    iterations: bool = True
    """Whether several iterations of each loop are looked at where a Func is read along and across, as in a matrix plus
    its transpose, and not the middle one alone."""
    fixed_sizes: bool = False
    """Whether outputs will always have exactly their estimated size: the code is then made for it, and refuses any
    other when it is run. The promise stays with the pipeline: a later schedule without it does not take it back."""
    may_alias: bool = False
    """Whether an output may be the same memory as an input, of which each point depends on the same point alone. What
    updates, or several outputs, need of inputs is then computed at root beforehand; what they read of that input
    themselves they find overwritten, whatever the schedule."""
    specialize_estimate: bool = True
    """Whether an output gets a version for its estimated extents along loops that are whole around others, or pick
    among values or parts, beside those for other sizes: faster there, and half as much code again."""
    weights: str = "auto"
    """What predicts run times: ``auto`` for the weights that were trained on this CPU or GPU, else those that come with
    Metol for the CPU's vectors, if any; ``analytical`` for the analytical model alone; or a file of weights."""
    budget_seconds: float | None = 5.0
    """Seconds after which the search settles for the best it has; None for no limit."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise SearchError(f"There is no search strategy `{self.strategy}`; there are {', '.join(STRATEGIES)}.")
        if self.budget_seconds is not None and not self.budget_seconds > 0:  # nor NaN
            raise SearchError(f"A search needs a budget of more than 0 seconds, not {self.budget_seconds}.")
        if self.seed < 0:
            raise SearchError(f"A seed is 0 or more, not {self.seed}.")
        require_fusion_mode(self.fusion)
        if self.strategy != "grouping":
            self.make()

    @property
    def space(self) -> _core.SpaceOptions:
        """Which decisions there are; the caller may restrict it further."""
        space = _core.SpaceOptions()
        space.allow_sliding = self.sliding
        space.allow_reductions = self.reductions
        space.allow_vector_widths = self.vector_widths
        space.allow_storage = self.storage
        space.allow_split = self.nested_tiling
        space.allow_nested_parallel = self.nested_parallel
        space.allow_fuse = self.fuse
        space.allow_align_storage = self.align_storage
        space.allow_prefetch = self.prefetch
        space.allow_iterations = self.iterations
        space.memoize = self.memoization
        space.has_fixed_sizes = self.fixed_sizes
        return space

    @property
    def lowering(self) -> LoweringOptions:
        """What lowering is to go by."""
        return LoweringOptions(self.fixed_sizes, self.may_alias, self.specialize_estimate)

    def make(self, machine: Machine | None = None) -> Strategy:
        """Return the strategy that these options describe.

        Args:
            machine: What it is to search for; grouping asks for it, and for a GPU.

        Raises:
            SearchError: The strategy is not one for the machine.
        """
        if self.strategy == "grouping":
            if not isinstance(machine, GpuMachine):
                raise SearchError(
                    "The strategy `grouping` makes kernels for a GPU; choose a target with one, such as host-cuda, or "
                    "another strategy."
                )
            return Grouping(machine, self.fusion)
        if self.strategy == "batch":
            return self.batch
        is_gpu = isinstance(machine, GpuMachine)
        width = _or(self.beam_width, _PUBLISHED.width if is_gpu else _CPU_WIDTH)
        passes = _or(self.passes, _PUBLISHED.passes if is_gpu else _CPU_PASSES)
        beam = BeamSearch(width, passes, dropout=self.dropout, seed=self.seed)
        greedy, narrow = beam.narrower()
        if self.strategy == "random":
            drawn = RandomSearch(self.samples, self.seed)
            return Refined((drawn,)) if self.refine else drawn
        if self.strategy == "mcts":
            return Refined((self.monte_carlo,)) if self.refine else self.monte_carlo
        if self.strategy == "greedy":
            return Refined((greedy,)) if self.refine else greedy
        if not self.refine:
            return beam
        # The cheapest first. In all orders the best of them wins; in this one, the end of the budget costs least.
        starts: list[Strategy] = [greedy, narrow]
        if self.freezing:
            starts.append(Frozen(narrow))
        starts.append(Sampled(beam, seed=self.seed) if self.sampling else beam)
        refined = Refined(tuple(starts))
        after = deviating if self.discrepancies else None
        found: Strategy = after(refined) if after else refined
        denied = () if is_gpu else self._denied
        found = Retried(found, denied, (greedy, narrow), after) if denied else found
        found = Restarts(found, after, seed=self.seed) if self.restarts else found
        sweeps = _GPU_SWEEPS if is_gpu else _CPU_SWEEPS
        return Refined((Annealed(found, sweeps=sweeps, seed=self.seed),)) if self.anneal else found

    @property
    def _denied(self) -> tuple[Restriction, ...]:
        """What a search on a CPU is denied after it has found something."""
        return (*((OffRoot(),) if self.off_root else ()), *((AlikeInline(),) if self.inline_alike else ()))

    @property
    def batch(self) -> Batch:
        """The batch of searches that the options describe, whatever the strategy."""
        return Batch(
            self.searches,
            _or(self.beam_width, _PUBLISHED.width),
            _or(self.passes, _PUBLISHED.passes),
            sampling=self.sampling is not False,
            freezing=self.freezing is not False,
            seed=self.seed,
        )

    @property
    def monte_carlo(self) -> MonteCarlo:
        """The trees that the options describe, whatever the strategy."""
        return MonteCarlo(
            self.trees,
            self.greedy_trees,
            ucb=self.ucb,
            guidance=self.guidance,
            simulation=self.simulation,
            beam_width=_or(self.beam_width, _PUBLISHED.width),
            root_choice=self.root_choice,
            descends=self.refine,
            deviates=self.discrepancies,
            iterations=self.tree_iterations,
            seed=self.seed,
        )
