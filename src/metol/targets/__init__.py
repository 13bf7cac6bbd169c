"""All that differs by machine: one folder a target, and the choice between them."""

from metol.targets.machine import (
    Machine,
    can_run,
    choose_machine,
    default_target,
    fit_target,
    load_machine,
    machine_parameters,
    missing_processor,
    parse_target,
    propose_rfactors,
    propose_stagings,
)

__all__ = [
    "Machine",
    "can_run",
    "choose_machine",
    "default_target",
    "fit_target",
    "load_machine",
    "machine_parameters",
    "missing_processor",
    "parse_target",
    "propose_rfactors",
    "propose_stagings",
]
