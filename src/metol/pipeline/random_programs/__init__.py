"""Random programs, to verify schedules on and to train cost models with (Adams et al. 2019, §5).

In: a seed. Out: a pipeline with estimates, of the stage kinds of image processing and of networks, whose results are
finite, vary, and do not depend on the order of evaluation beyond a small relative error.
"""

from metol.pipeline.random_programs.program import STAGE_KINDS, RandomProgram, random_program

__all__ = ["STAGE_KINDS", "RandomProgram", "random_program"]
