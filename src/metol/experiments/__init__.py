"""The papers' experiments, on this machine: each measures its subjects in turn; a table, a plot and its data remain.

In: the name of an experiment, pipelines, and how to measure. Out: an `Outcome` for each subject, and what is made of
them all. What has been measured is not measured again.
"""

import importlib
from typing import TYPE_CHECKING

from metol.errors import MetolError
from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.experiments.drawing import require_matplotlib, save_csv, save_plot
    from metol.experiments.experiment import (
        Experiment,
        Outcome,
        OutcomeFile,
        Point,
        Setting,
        kept_notes,
        run_experiment,
    )
    from metol.experiments.roofline import RooflinePoint, draw_roofline, roofline_points, save_roofline

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "OutcomeFile",
    "Point",
    "RooflinePoint",
    "Setting",
    "draw_roofline",
    "get_experiment",
    "kept_notes",
    "require_matplotlib",
    "roofline_points",
    "run_experiment",
    "save_csv",
    "save_plot",
    "save_roofline",
]

EXPERIMENTS = {
    "adams-ablations": "ablations:Ablations",
    "adams-arm": "arm:CrossCompilation",
    "adams-fig6": "random_programs:SpeedUps",
    "adams-fig7": "random_programs:Predictions",
    "adams-fig8": "modes:Modes",
    "anderson-fig6": "anderson_throughput:Throughput",
    "anderson-fig7": "anderson_throughput:SearchFilters",
    "anderson-fig8": "anderson_predictions:BatchPredictions",
    "anderson-table1": "anderson_searches:StatesEvaluated",
    "anderson-table2": "anderson_searches:SearchTimes",
    "anderson-table4": "anderson_modes:CompileTimes",
    "anderson-table5": "anderson_memory:SearchMemory",
    "gpu-kernels": "gpu_kernels:GpuKernels",
    "limit": "limit:Limit",
    "profile": "profile:FuncProfile",
    "protuner-fig7": "protuner:TreeCosts",
    "protuner-fig8": "protuner:TreeTimes",
    "protuner-fig9": "tree_tuning:TreeTuning",
    "resnet50": "network:Network",
    "scaling": "scaling:Scaling",
    "tree-speed": "tree_speed:TreeSpeed",
}
"""Where each experiment lives in this package, by its name."""

_HOMES = {
    "Experiment": "metol.experiments.experiment",
    "Outcome": "metol.experiments.experiment",
    "OutcomeFile": "metol.experiments.experiment",
    "Point": "metol.experiments.experiment",
    "RooflinePoint": "metol.experiments.roofline",
    "Setting": "metol.experiments.experiment",
    "draw_roofline": "metol.experiments.roofline",
    "kept_notes": "metol.experiments.experiment",
    "require_matplotlib": "metol.experiments.drawing",
    "roofline_points": "metol.experiments.roofline",
    "run_experiment": "metol.experiments.experiment",
    "save_csv": "metol.experiments.drawing",
    "save_plot": "metol.experiments.drawing",
    "save_roofline": "metol.experiments.roofline",
}

__getattr__ = lazy_names(__name__, _HOMES)


def get_experiment(name: str) -> "Experiment":
    """Return an experiment.

    Raises:
        MetolError: there is none of this name.
    """
    if name not in EXPERIMENTS:
        raise MetolError(f"There is no experiment `{name}`; there are {', '.join(EXPERIMENTS)}.")
    module, kind = EXPERIMENTS[name].split(":")
    experiment: Experiment = getattr(importlib.import_module(f"{__name__}.{module}"), kind)()
    return experiment
