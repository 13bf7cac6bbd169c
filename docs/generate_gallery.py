"""Write the gallery of random programs: a page and a picture of ten, from their seeds.

In: nothing. Out: random_programs.md and images/random_programs.png beside this file.
"""

from pathlib import Path

from metol.measure import PipelineSource
from metol.pipeline import PipelineDag, extract

_HERE = Path(__file__).parent
_PICTURE = _HERE / "images" / "random_programs.png"

SOURCES = tuple(f"random:{seed}/least_funcs=4/most_funcs=16" for seed in (1, 2, 5, 9, 11, 13, 17, 21, 24, 29))
"""The programs that are shown."""

_PAGE = """\
# Random programs

<!-- Written by docs/generate_gallery.py (`make docs`). -->

The cost model is trained on programs that nobody wrote: a seed decides about everything (Adams et al. 2019, §5). Stages
are drawn from the kinds of `src/metol/pipeline/random_programs`: arithmetic, casts and storage in every scalar type,
selects, lookups, stencils, boundary conditions, resampling, reductions, scans, histograms, convolutions, products of
matrices. Two images meet in one Stage only along axes of the same unit and scale. `metol bench SOURCE`
runs any of them.

Ten of them, from inputs (top, grey) to outputs (bottom, dark):

![Ten random programs as graphs](images/random_programs.png)

{sections}"""

_SECTION = """\
## `{source}`

{funcs} Funcs, {stages} Stages; outputs {outputs}.

{kinds}
"""


def page() -> str:
    """Return the text of the page."""
    return _PAGE.format(sections="\n".join(map(_section, SOURCES)))


def _section(source: str) -> str:
    dag = extract(PipelineSource.parse(source).build())
    computed = [func for func in dag.funcs if not func.is_input]
    outputs = " and ".join(
        "x".join(str(side.extent) for side in dag.funcs[output].estimate) or "a number" for output in dag.outputs
    )
    inputs = len(dag.funcs) - len(computed)
    chain = " → ".join(f"`{_plain(func.name)}`" for func in computed)
    return _SECTION.format(
        source=source,
        funcs=len(computed),
        stages=len(dag.stages),
        outputs=outputs,
        kinds=f"{inputs} input{'s' if inputs != 1 else ''}, then {chain}",
    )


def draw(path: Path) -> None:
    """Draw all of them as graphs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 5, figsize=(20, 11))
    for axis, source in zip(axes.flat, SOURCES, strict=True):
        _draw_one(axis, extract(PipelineSource.parse(source).build()))
        axis.set_title(source.split("/")[0], fontsize=10)
        axis.axis("off")
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _draw_one(axis: object, dag: PipelineDag) -> None:
    edges = sorted({(edge.producer, stage.func) for stage in dag.stages for edge in stage.edges})
    edges = [(producer, consumer) for producer, consumer in edges if producer != consumer]
    depth = [0] * len(dag.funcs)
    for _ in dag.funcs:
        for producer, consumer in edges:
            depth[consumer] = max(depth[consumer], depth[producer] + 1)
    rows: dict[int, list[int]] = {}
    for number, level in enumerate(depth):
        rows.setdefault(level, []).append(number)
    place = {
        func: ((number + 0.5) / len(row), -float(level))
        for level, row in rows.items()
        for number, func in enumerate(row)
    }
    for producer, consumer in edges:
        (x0, y0), (x1, y1) = place[producer], place[consumer]
        axis.plot([x0, x1], [y0, y1], color="0.75", linewidth=0.8, zorder=1)  # type: ignore[attr-defined]
    for position, func in enumerate(dag.funcs):
        colour = "0.85" if func.is_input else ("#2b4c7e" if func.is_output else "#8fb3e0")
        axis.text(  # type: ignore[attr-defined]
            *place[position],
            _plain(func.name),
            fontsize=7,
            ha="center",
            va="center",
            color="white" if func.is_output else "black",
            bbox={"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"},
            zorder=2,
        )
    axis.set(xlim=(-0.1, 1.1), ylim=(-max(depth) - 0.6, 0.6))  # type: ignore[attr-defined]


def _plain(name: str) -> str:
    return name.split("$")[0].removesuffix("_im")


if __name__ == "__main__":
    (_HERE / "random_programs.md").write_text(page(), encoding="utf-8")
    draw(_PICTURE)
