"""What the OpenCL loader says of its devices: the script that opencl_devices.py runs in a process of its own.

In: libraries to try, as arguments. Out: one line of JSON, a list of platforms, each a list of devices. It imports
nothing of Metol, which takes longer than the question.
"""

import ctypes
import json
import sys
from collections.abc import Sequence
from typing import Any

_NAME_BYTES = 256
# CL_DEVICE_TYPE_ALL of OpenCL 1.2. A platform without a device is an error to it.
_ALL = ctypes.c_uint64(0xFFFFFFFF)
_NAME = 0x102B
# cl_device_info of OpenCL 1.2, with the type of each.
_NUMBERS: dict[str, tuple[int, Any]] = {
    "type": (0x1000, ctypes.c_uint64),
    "compute_units": (0x1002, ctypes.c_uint32),
    "max_threads_per_block": (0x1004, ctypes.c_size_t),
    "clock_mhz": (0x100C, ctypes.c_uint32),
    "local_bytes": (0x1023, ctypes.c_uint64),
}


def _open(libraries: Sequence[str]) -> ctypes.CDLL | None:
    """Return the first library that is there."""
    for library in libraries:
        try:
            return ctypes.CDLL(library)
        except OSError:
            continue
    return None


def _pointers(ask: Any) -> list[ctypes.c_void_p]:
    """Return platforms or devices; `ask` is told how many, where they go, and where their number goes."""
    count = ctypes.c_uint32(0)
    if ask(0, None, ctypes.byref(count)) or not count.value:
        return []
    found = (ctypes.c_void_p * count.value)()
    ask(count, found, ctypes.byref(count))
    return [ctypes.c_void_p(pointer) for pointer in found]


def _describe(loader: ctypes.CDLL, device: ctypes.c_void_p) -> dict[str, object]:
    """Return the name of a device, and its numbers; without those that the driver refuses."""
    name = ctypes.create_string_buffer(_NAME_BYTES)
    ask = getattr(loader, "clGetDeviceInfo", None)
    if ask is None or ask(device, _NAME, ctypes.c_size_t(_NAME_BYTES), name, None):
        return {"name": ""}
    numbers = {}
    for key, (code, kind) in _NUMBERS.items():
        value = kind(0)
        if ask(device, code, ctypes.c_size_t(ctypes.sizeof(value)), ctypes.byref(value), None) == 0:
            numbers[key] = value.value
    return {"name": name.value.decode(errors="replace").strip(), **numbers}


def _platforms(libraries: Sequence[str]) -> list[list[dict[str, object]]]:
    """Return the devices of each platform; none where there is no loader."""
    loader = _open(libraries)
    if loader is None:
        return []
    platforms = _pointers(loader.clGetPlatformIDs)
    asks = (lambda *rest, of=platform: loader.clGetDeviceIDs(of, _ALL, *rest) for platform in platforms)
    return [[_describe(loader, device) for device in _pointers(ask)] for ask in asks]


if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(_platforms(sys.argv[1:]))}\n")
