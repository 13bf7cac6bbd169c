"""Which directives a loop nest becomes: the choice between the modules that know one target each."""

from collections.abc import Sequence

from metol import _core
from metol.lower.cpu import cpu_directives
from metol.lower.directive import Directive
from metol.lower.gpu import gpu_directives
from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
from metol.pipeline import PipelineDag
from metol.targets import Machine
from metol.targets.gpu import GpuMachine, host_funcs

__all__ = ["target_directives"]


def target_directives(
    machine: Machine,
    dag: PipelineDag,
    schedules: Sequence[_core.FuncSchedule],
    options: LoweringOptions = NO_PROMISES,
) -> tuple[Directive, ...]:
    """Return the directives of a complete loop nest that was found for a machine.

    Args:
        machine: What the search went by.
        dag: The pipeline.
        schedules: One a Func, in the order of the DAG, none of them unscheduled.
        options: What the user promised about the outputs.
    """
    if isinstance(machine, GpuMachine):
        return gpu_directives(dag, schedules, host_funcs(machine, dag), options)
    return cpu_directives(dag, schedules, options)
