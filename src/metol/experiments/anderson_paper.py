"""What Anderson et al. 2021 measured, as printed: a beam search for a V100, on a Power9.

Their applications are those of our full suite but for `blur`, under the same names.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["COMPILE_SECONDS", "MEMORY_MB", "SECONDS", "STATES", "CompileSeconds"]

STATES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "bilateral_grid": (4019, 164617, 200976, 578876),
        "local_laplacian": (34145, 436254, 201263, 1072715),
        "nl_means": (67750, 182066, 443744, 445128),
        "lens_blur": (39268, 2222985, 1248771, 4736690),
        "camera_pipe": (15345, 159561, 139640, 314883),
        "stencil_chain": (22384, 209394, 227875, 253153),
        "harris": (12538, 12340, 55267, 41034),
        "hist": (10360, 30912, 45620, 78904),
        "max_filter": (12160, 36707, 58098, 70196),
        "unsharp": (2988, 9662, 19216, 23953),
        "interpolate": (17808, 307447, 154711, 705827),
        "conv_layer": (7706, 230170, 111690, 596341),
        "matmul": (698, 1853, 6783, 3798),
        "iir_blur": (3150, 13464, 14974, 38136),
        "bgu": (28333, 425325, 295303, 882435),
        "depthwise_separable_conv": (5984, 121769, 245637, 335338),
        "learned_demosaic": (50488, 353843, 1000740, 1045372),
    }
)
"""Table 1: states evaluated with sampling and freezing, sampling alone, freezing alone, and neither."""

SECONDS: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {
        "bilateral_grid": (2.94, 16.51, 7.87, 27.95, 9.96, 212.86, 338.45, 682.42),
        "local_laplacian": (110.09, 432, 131.47, 509.91, 418.45, 7918.44, 3996.33, 14568.95),
        "nl_means": (11.16, 23.04, 26.61, 34.85, 45.77, 201.11, 269.01, 536.12),
        "lens_blur": (111.21, 674.67, 273.73, 960.84, 394.15, 23379.77, 15588.4, 59085.78),
        "camera_pipe": (42.91, 719.92, 463.62, 1287.87, 42.29, 712.76, 468.96, 1280.13),
        "stencil_chain": (52.9, 183.35, 74.1, 216.81, 225.45, 2334.77, 2238.13, 2633.46),
        "harris": (4.52, 13.73, 8.67, 20.3, 32.92, 14.94, 149.88, 57.73),
        "hist": (2.06, 5.28, 4.38, 8.69, 11.08, 28.32, 45.78, 71.06),
        "max_filter": (1.77, 4.48, 3, 5.89, 7.56, 17.78, 24.57, 38.77),
        "unsharp": (2.56, 8.04, 2.12, 10.26, 5.47, 8.88, 17.52, 17.99),
        "interpolate": (25.75, 138.35, 42.16, 178.68, 89.18, 3170.35, 1253.08, 5211.48),
        "conv_layer": (1.1, 12.69, 4.44, 18.52, 3.79, 93.59, 41.2, 214.92),
        "matmul": (0.08, 0.24, 0.22, 0.48, 0.1, 0.27, 1.36, 0.57),
        "iir_blur": (0.6, 1.51, 1.08, 2.05, 2.43, 8.18, 8.51, 20.26),
        "bgu": (89.39, 246.48, 146.15, 272.64, 388.56, 2431.77, 1836.45, 3578.3),
        "depthwise_separable_conv": (4, 10.52, 11.72, 15.74, 8.43, 73.49, 113.41, 175.68),
        "learned_demosaic": (54.24, 89.64, 157.99, 181.49, 173.37, 702.62, 2589.62, 2034.93),
    }
)
"""Table 2: seconds of a beam search with memoization, of sampling and freezing as in `STATES`, then without it."""


class CompileSeconds(NamedTuple):
    """A row of table 4."""

    sioutas: float
    sioutas_search: float
    one_shot: float
    one_shot_search: float
    top_5: float


COMPILE_SECONDS: Final[Mapping[str, CompileSeconds]] = MappingProxyType(
    {
        "bilateral_grid": CompileSeconds(52, 43.8, 23.5, 9.6, 34),
        "local_laplacian": CompileSeconds(61, 47.8, 149.7, 121.8, 149.7),
        "nl_means": CompileSeconds(57, 49.3, 55.7, 41.9, 55.7),
        "lens_blur": CompileSeconds(85, 71, 186.2, 149.1, 186.2),
        "camera_pipe": CompileSeconds(59, 58, 69, 57.5, 70),
        "stencil_chain": CompileSeconds(100, 86.2, 111.1, 80.1, 113.5),
        "harris": CompileSeconds(6, 4.3, 22.1, 12.6, 34),
        "hist": CompileSeconds(6, 5.3, 16.6, 3.3, 32),
        "max_filter": CompileSeconds(32, 22.7, 19.3, 7.6, 33),
        "unsharp": CompileSeconds(4, 3.1, 16, 3.2, 33),
        "interpolate": CompileSeconds(28, 18.8, 50.1, 36.8, 51),
        "conv_layer": CompileSeconds(3, 1.2, 16.9, 4.8, 31),
        "matmul": CompileSeconds(7, 0.7, 12.6, 0.1, 29),
        "iir_blur": CompileSeconds(5, 4, 15.7, 2.7, 33),
        "bgu": CompileSeconds(78, 56.7, 165.4, 131.4, 165.4),
        "depthwise_separable_conv": CompileSeconds(10, 2.3, 23.5, 12.7, 41),
        "learned_demosaic": CompileSeconds(8, 1.8, 98.5, 82.2, 98.5),
    }
)
"""Table 4: seconds with code generation, and of the search alone."""

MEMORY_MB: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "bilateral_grid": (113, 110, 8814, 112, 110, 8799),
        "local_laplacian": (419, 126, 10369, 148, 125, 10023),
        "nl_means": (1142, 112, 9969, 269, 110, 8996),
        "lens_blur": (691, 165, 13740, 292, 157, 12719),
        "camera_pipe": (118, 112, 8986, 118, 112, 9001),
        "stencil_chain": (144, 136, 10863, 113, 135, 10760),
        "harris": (115, 111, 8862, 115, 111, 8857),
        "hist": (113, 111, 8891, 115, 111, 8882),
        "max_filter": (154, 111, 8926, 115, 111, 8887),
        "unsharp": (112, 111, 8854, 112, 111, 8854),
        "interpolate": (166, 113, 9079, 120, 113, 9034),
        "conv_layer": (111, 109, 8722, 112, 109, 8732),
        "matmul": (108, 103, 8213, 108, 103, 8213),
        "iir_blur": (111, 109, 8702, 111, 109, 8706),
        "bgu": (18957, 1590, 144558, 3861, 1536, 125210),
        "depthwise_separable_conv": (520, 110, 9171, 225, 110, 8891),
        "learned_demosaic": (912, 168, 14214, 275, 151, 12208),
    }
)
"""Table 5: MB of a beam search, a greedy search and a batch of 80 with memoization, then without. A batch is the sum of
80 processes there."""
