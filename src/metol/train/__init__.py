"""Trained cost models: random programs enter, measured on this machine; weights and reports leave.

Source: Adams et al. 2019, §4.2 and §5; ProTuner 2020, §3, for where such models fail.
"""

from typing import TYPE_CHECKING

from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.train.collect import Collector, CollectPlan
    from metol.train.devices import samples_of
    from metol.train.draw import Drawn, DrawPlan, draw_nests
    from metol.train.evaluation import (
        Evaluation,
        evaluate_analytical,
        evaluate_weights,
        rows_per_second,
        score_models,
        summary_of,
    )
    from metol.train.extra import require_extra
    from metol.train.fit import FitOptions
    from metol.train.gpu_training import GpuTraining, GpuWeights
    from metol.train.hold_one_out import HoldOneOut, hold_one_out
    from metol.train.own import OwnTraining
    from metol.train.retrain import FineTuner
    from metol.train.samples import ProgramSamples, Sample, SampleFiles, SampleFolders
    from metol.train.scores import rank_correlation_of
    from metol.train.table import FeatureTable, make_table

__all__ = [
    "CollectPlan",
    "Collector",
    "DrawPlan",
    "Drawn",
    "Evaluation",
    "FeatureTable",
    "FineTuner",
    "FitOptions",
    "GpuTraining",
    "GpuWeights",
    "HoldOneOut",
    "OwnTraining",
    "ProgramSamples",
    "Sample",
    "SampleFiles",
    "SampleFolders",
    "draw_nests",
    "evaluate_analytical",
    "evaluate_weights",
    "hold_one_out",
    "make_table",
    "rank_correlation_of",
    "require_extra",
    "rows_per_second",
    "samples_of",
    "score_models",
    "summary_of",
]

_HOMES = {
    "CollectPlan": "metol.train.collect",
    "Collector": "metol.train.collect",
    "DrawPlan": "metol.train.draw",
    "Drawn": "metol.train.draw",
    "Evaluation": "metol.train.evaluation",
    "FeatureTable": "metol.train.table",
    "FineTuner": "metol.train.retrain",
    "FitOptions": "metol.train.fit",
    "GpuTraining": "metol.train.gpu_training",
    "GpuWeights": "metol.train.gpu_training",
    "HoldOneOut": "metol.train.hold_one_out",
    "OwnTraining": "metol.train.own",
    "ProgramSamples": "metol.train.samples",
    "Sample": "metol.train.samples",
    "SampleFiles": "metol.train.samples",
    "SampleFolders": "metol.train.samples",
    "draw_nests": "metol.train.draw",
    "evaluate_analytical": "metol.train.evaluation",
    "evaluate_weights": "metol.train.evaluation",
    "hold_one_out": "metol.train.hold_one_out",
    "make_table": "metol.train.table",
    "rank_correlation_of": "metol.train.scores",
    "require_extra": "metol.train.extra",
    "rows_per_second": "metol.train.evaluation",
    "samples_of": "metol.train.devices",
    "score_models": "metol.train.evaluation",
    "summary_of": "metol.train.evaluation",
}

__getattr__ = lazy_names(__name__, _HOMES)
