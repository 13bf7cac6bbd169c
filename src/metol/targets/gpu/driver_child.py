"""What the CUDA driver says of its devices: the script that driver.py runs in a process of its own.

In: attribute numbers, then libraries to try, as arguments. Out: one line of JSON, a list of devices, each a name and
the attributes that this driver knows. It imports nothing of Metol, which takes longer than the question.
"""

import ctypes
import json
import sys
from collections.abc import Sequence

_NAME_BYTES = 256


def _open(libraries: Sequence[str]) -> ctypes.CDLL | None:
    """Return the first library that is there."""
    for library in libraries:
        try:
            return ctypes.CDLL(library)
        except OSError:
            continue
    return None


def _describe(driver: ctypes.CDLL, ordinal: int, attributes: Sequence[int]) -> dict[str, object]:
    """Return the name of a device, and its attributes by their numbers; without those that the driver refuses."""
    device = ctypes.c_int(0)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    if driver.cuDeviceGet(ctypes.byref(device), ordinal) or driver.cuDeviceGetName(name, _NAME_BYTES, device):
        return {"name": "", "attributes": {}}
    values = {}
    for attribute in attributes:
        value = ctypes.c_int(0)
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0:
            values[attribute] = value.value
    return {"name": name.value.decode(errors="replace"), "attributes": values}


def _devices(attributes: Sequence[int], libraries: Sequence[str]) -> list[dict[str, object]]:
    """Return all devices; none where there is no driver."""
    driver = _open(libraries)
    count = ctypes.c_int(0)
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    return [_describe(driver, ordinal, attributes) for ordinal in range(count.value)]


if __name__ == "__main__":
    answer = _devices([int(text) for text in sys.argv[1].split(",")], sys.argv[2:])
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
