"""The loops of kernels, read from their PTX as text."""

import re


def loops_of(kernel: str) -> list[str]:
    """The bodies of the innermost loops: from a label to the branch that goes back to it, with no label between."""
    parts = re.split(r"\n(\$L\w+):", kernel)
    turns = (
        re.search(rf".*bra\S*\s+{re.escape(label)};", body, re.DOTALL)
        for label, body in zip(parts[1::2], parts[2::2], strict=True)
    )
    return [turn[0] for turn in turns if turn]
