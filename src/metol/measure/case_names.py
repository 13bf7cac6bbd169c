"""What the cases of a pipeline are called, and which of its extents all sizes share."""

__all__ = ["AWKWARD", "ESTIMATED", "SMALL_EXTENT"]

ESTIMATED = "estimated size"
AWKWARD = "awkward size"

SMALL_EXTENT = 4
"""Extents up to this are channels, taps and the like, on whose number the algorithm may depend."""
