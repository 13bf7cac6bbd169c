"""Whether something here runs OpenCL.

Enters: nothing but the machine. Leaves: yes or no. The loader is asked in a child process with a time limit, as drivers
are: one that is half installed may crash, or never answer.
"""

import functools
import subprocess
import sys
from typing import Final

__all__ = ["has_opencl_device"]

_LIBRARIES: Final = ("libOpenCL.so.1", "libOpenCL.so")
_CHILD_SECONDS: Final = 20.0
# CL_DEVICE_TYPE_ALL of OpenCL 1.2. A platform without a device is an error to it, so it is not what counts.
_ASK: Final = """
import ctypes, sys
for name in sys.argv[1:]:
    try:
        loader = ctypes.CDLL(name)
        break
    except OSError:
        pass
else:
    sys.exit(1)
count = ctypes.c_uint32(0)
if loader.clGetPlatformIDs(0, None, ctypes.byref(count)) or not count.value:
    sys.exit(1)
platforms = (ctypes.c_void_p * count.value)()
loader.clGetPlatformIDs(count, platforms, None)
devices = ctypes.c_uint32(0)
found = 0
for platform in platforms:
    status = loader.clGetDeviceIDs(
        ctypes.c_void_p(platform), ctypes.c_uint64(0xFFFFFFFF), 0, None, ctypes.byref(devices)
    )
    found += devices.value if status == 0 else 0
sys.exit(0 if found else 1)
"""


@functools.cache
def has_opencl_device(libraries: tuple[str, ...] = _LIBRARIES, limit_seconds: float = _CHILD_SECONDS) -> bool:
    """Tell whether Halide's runtime would find an OpenCL device; asked once in a process.

    Args:
        libraries: The loader, under the names to try, the first that is there.
        limit_seconds: When it is given up.
    """
    command = [sys.executable, "-I", "-c", _ASK, *libraries]
    try:
        return subprocess.run(command, capture_output=True, timeout=limit_seconds, check=False).returncode == 0
    except subprocess.SubprocessError:
        return False
