"""Hand-written PTX on the emulated GPU, through the driver's own functions."""

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from metol.emulated_cuda import LIBRARY

__all__ = ["DRIVER", "Kernel", "error_of", "run"]

DRIVER = ctypes.CDLL(str(LIBRARY))

_FRAME = """
.version 8.0
.target sm_80
.address_size 64
{variables}
.visible .entry kernel({parameters})
{{
    .reg .pred %p<9>;
    .reg .b32 %r<99>;
    .reg .b64 %rd<99>;
{loads}
{body}
    ret;
}}
"""


class Kernel:
    """A kernel whose arrays are in %rd0, %rd1 and so on, with the number of the thread in %r0."""

    def __init__(self, body: str, arrays: int = 1, variables: str = "") -> None:
        names = [f"kernel_param_{number}" for number in range(arrays)]
        loads = [f"    ld.param.u64 %rd{number}, [{name}];" for number, name in enumerate(names)]
        self.text = _FRAME.format(
            variables=variables,
            parameters=", ".join(f".param .u64 {name}" for name in names),
            loads="\n".join([*loads, "    mov.u32 %r0, %tid.x;"]),
            body=body,
        )

    def load(self) -> tuple[int, ctypes.c_void_p]:
        """Return the driver's code, and its module."""
        module = ctypes.c_void_p()
        return DRIVER.cuModuleLoadData(ctypes.byref(module), self.text.encode()), module

    def launch(self, arrays: Sequence[npt.NDArray], *, threads: int, shared_bytes: int = 0, blocks: int = 1) -> int:
        """Run it on arrays, which it may write to, and return the driver's code."""
        code, module = self.load()
        assert code == 0
        function = ctypes.c_void_p()
        assert DRIVER.cuModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
        addresses = [ctypes.c_uint64() for _ in arrays]
        for address, array in zip(addresses, arrays, strict=True):
            assert DRIVER.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(array.nbytes)) == 0
            assert (
                DRIVER.cuMemcpyHtoD_v2(address, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
                == 0
            )
        pointers = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(address) for address in addresses))
        code = DRIVER.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, None, pointers, None)
        for address, array in zip(addresses, arrays, strict=True):
            assert (
                DRIVER.cuMemcpyDtoH_v2(array.ctypes.data_as(ctypes.c_void_p), address, ctypes.c_size_t(array.nbytes))
                == 0
            )
            assert DRIVER.cuMemFree_v2(address) == 0
        assert DRIVER.cuModuleUnload(module) == 0
        return int(code)


_OF_THREAD = "    mul.wide.u32 %rd9, %r0, {bytes};\n    add.s64 %rd10, %rd{array}, %rd9;"


def run(operation: str, operands: Sequence[npt.NDArray], dtype: npt.DTypeLike) -> npt.NDArray:
    """Return what one instruction makes of each element, with `{out}`, `{a}`, `{b}` and `{c}` for its registers."""
    result = np.zeros(len(operands[0]), dtype)
    lines = []
    registers = {}
    for number, (name, values) in enumerate(zip("abc", operands, strict=False)):
        registers[name] = f"%{'rd' if values.itemsize == 8 else 'r'}{20 + number}"
        lines.append(_OF_THREAD.format(array=number, bytes=values.itemsize))
        lines.append(f"    ld.global.b{8 * values.itemsize} {registers[name]}, [%rd10];")
    registers["out"] = f"%{'rd' if result.itemsize == 8 else 'r'}30"
    lines.append("    " + operation.format(**registers))
    lines.append(_OF_THREAD.format(array=len(operands), bytes=result.itemsize))
    lines.append(f"    st.global.b{8 * result.itemsize} [%rd10], {registers['out']};")
    arrays = [*(np.ascontiguousarray(values) for values in operands), result]
    assert Kernel("\n".join(lines), len(arrays)).launch(arrays, threads=len(result)) == 0
    return result


def error_of(
    capfd: pytest.CaptureFixture[str], kernel: Kernel, arrays: Sequence[npt.NDArray], **how: int
) -> tuple[int, str]:
    """Return the driver's code, and what it printed."""
    capfd.readouterr()
    code = kernel.launch(arrays, **how)
    return code, capfd.readouterr().err
