"""What a person sees of a fit: tables of scores, and plots.

In: scores, and measured and predicted times. Out: tables, PNG files. Source: Adams et al. 2019, figure 7.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metol.text_table import TextTable
from metol.train.scores import Scores

__all__ = ["program_table", "save_plots", "score_table"]


def score_table(title: str, scores: Mapping[str, Scores]) -> TextTable:
    """Return the scores of several models."""
    rows = [
        (
            name,
            str(len(one.programs)),
            str(sum(program.samples for program in one.programs)),
            f"{one.r2:.3f}",
            f"{one.rank_correlation:.3f}",
            f"{one.regret:.1%}",
        )
        for name, one in scores.items()
    ]
    headers = ("model", "programs", "samples", "R² of log time", "rank correlation", "regret of the best")
    return TextTable(title, headers, tuple(rows))


def program_table(title: str, scores: Scores) -> TextTable:
    """Return the scores of each program, the worst order first."""
    ordered = sorted(scores.programs, key=lambda program: program.rank_correlation)
    rows = [(one.program, str(one.samples), f"{one.rank_correlation:.2f}", f"{one.regret:.1%}") for one in ordered]
    return TextTable(title, ("program", "samples", "rank correlation", "regret of the best"), tuple(rows))


def save_plots(
    folder: Path, measured: Any, predicted: Mapping[str, Any], history: Sequence[Sequence[tuple[float, float]]] = ()
) -> list[Path]:
    """Draw predicted against measured times, [samples] each, for every model, and how the loss fell.

    Args:
        folder: Where the files go.
        measured: Seconds, [samples].
        predicted: Seconds by model, [samples] each.
        history: Loss on what was fitted to and on what stops early, by epoch, of each network.

    Returns:
        The files.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, len(predicted), figsize=(4.5 * len(predicted), 4.5), squeeze=False, sharey=True)
    limits = np.array([np.min(measured), np.max(measured)]) * 1e3 * np.array([0.7, 1.4])
    for axis, (name, seconds) in zip(axes[0], predicted.items(), strict=True):
        axis.loglog(measured * 1e3, seconds * 1e3, ".", markersize=3, alpha=0.4)
        axis.loglog(limits, limits, color="black", linewidth=0.8)
        axis.set(title=name, xlabel="measured (ms)", xlim=limits, ylim=limits)
    axes[0][0].set_ylabel("predicted (ms)")
    figure.tight_layout()
    files = [folder / "predictions.png"]
    figure.savefig(files[0], dpi=110)
    plt.close(figure)
    if history:
        figure, axis = plt.subplots(figsize=(6, 4))
        for number, epochs in enumerate(history):
            fitted, stopping = zip(*epochs, strict=True)
            axis.plot(fitted, color=f"C{number}", linestyle=":", label="fitted to" if number == 0 else None)
            axis.plot(stopping, color=f"C{number}", label="stops early" if number == 0 else None)
        axis.set(xlabel="epoch", ylabel="loss", yscale="log")
        axis.legend()
        figure.tight_layout()
        files.append(folder / "loss.png")
        figure.savefig(files[1], dpi=110)
        plt.close(figure)
    return files
