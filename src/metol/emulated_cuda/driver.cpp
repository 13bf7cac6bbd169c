// The functions of the CUDA driver that Halide's runtime calls, over the emulator: one device, one context, one stream,
// on which every call is done when it returns.
//
// Enters: what the runtime passes. Leaves: codes of CUresult; the text of a fault goes to standard error. Source:
// NVIDIA, CUDA Driver API 12.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "emulated_cuda/block.hpp"
#include "emulated_cuda/parser.hpp"

namespace {

using metol::emulated::EmulationError;
using metol::emulated::Fault;
using metol::emulated::FaultError;
using metol::emulated::GlobalMemory;
using metol::emulated::Kernel;
using metol::emulated::Launch;
using metol::emulated::Module;

enum Result : int32_t {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kInvalidDevice = 101,
    kInvalidPtx = static_cast<int32_t>(Fault::InvalidPtx),
    kNotFound = 500,
    kIllegalAddress = static_cast<int32_t>(Fault::IllegalAddress),
};

// CUdevice_attribute: those of which something else than 0 is said.
enum Attribute : int32_t {
    kMaxThreadsPerBlock = 1,
    kMaxBlockX = 2,
    kMaxBlockY = 3,
    kMaxBlockZ = 4,
    kMaxGridX = 5,
    kMaxGridY = 6,
    kMaxGridZ = 7,
    kSharedBytesPerBlock = 8,
    kConstantBytes = 9,
    kWarpSize = 10,
    kRegistersPerBlock = 12,
    kMultiprocessors = 16,
    kMajor = 75,
    kMinor = 76,
};

constexpr int32_t kThreads = 1024;
constexpr int32_t kThreadsZ = 64;
constexpr int32_t kBlocks = 65535;
constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int32_t kRegisters = 65536;
constexpr size_t kMemoryBytes = size_t{16} << 30U;
constexpr uint32_t kVersion = 12000;
// Code is run as it is, whatever device it is for: of one that is so old Halide adds nothing to a target.
constexpr int32_t kCapabilityMajor = 1;

struct Device {
    std::mutex mutex;
    GlobalMemory memory;
    std::string fault;  // the last
};

Device& device() {
    static Device one;
    return one;
}

// Whatever is not null, for handles that stand for the only one.
int32_t only_handle = 0;

int32_t report(const char* what, const std::string& text, int32_t code) {
    device().fault = std::string("The emulated GPU, ") + what + ": " + text + ".";
    std::fprintf(stderr, "%s\n", device().fault.c_str());
    return code;
}

int32_t check_range(uint64_t address, size_t bytes, const char* what) {
    if (bytes == 0 || device().memory.holds(address, bytes)) {
        return kSuccess;
    }
    return report(what, std::to_string(bytes) + " bytes at an address that was not allocated", kIllegalAddress);
}

bool is_launchable(const metol::emulated::Extents& blocks, const metol::emulated::Extents& threads, int64_t shared) {
    const int64_t count = int64_t{threads[0]} * threads[1] * threads[2];
    return blocks[0] >= 1 && blocks[1] >= 1 && blocks[2] >= 1 && blocks[1] <= kBlocks && blocks[2] <= kBlocks &&
           count >= 1 && count <= kThreads && threads[2] <= kThreadsZ && shared <= kSharedBytes;
}

// CUDA_MEMCPY3D.
struct Copy3d {
    size_t from_x, from_y, from_z, from_level;
    int32_t from_type;
    const void* from_host;
    uint64_t from_device;
    void* from_array;
    void* from_context;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_level;
    int32_t to_type;
    void* to_host;
    uint64_t to_device;
    void* to_array;
    void* to_context;
    size_t to_pitch, to_height;
    size_t width, height, depth;
};
constexpr int32_t kHostMemory = 1;

}  // namespace

extern "C" {

int32_t cuInit(uint32_t) {
    return kSuccess;
}

int32_t cuDriverGetVersion(int32_t* version) {
    *version = static_cast<int32_t>(kVersion);
    return kSuccess;
}

int32_t cuDeviceGetCount(int32_t* count) {
    *count = 1;
    return kSuccess;
}

int32_t cuDeviceGet(int32_t* found, int32_t ordinal) {
    *found = 0;
    return ordinal == 0 ? kSuccess : kInvalidDevice;
}

int32_t cuDeviceGetName(char* name, int32_t length, int32_t) {
    std::snprintf(name, static_cast<size_t>(length), "Metol's emulated GPU");
    return kSuccess;
}

int32_t cuDeviceTotalMem_v2(size_t* bytes, int32_t) {
    *bytes = kMemoryBytes;
    return kSuccess;
}

int32_t cuDeviceGetAttribute(int32_t* value, int32_t attribute, int32_t) {
    switch (attribute) {
        case kMaxThreadsPerBlock:
        case kMaxBlockX:
        case kMaxBlockY:
            *value = kThreads;
            break;
        case kMaxBlockZ:
            *value = kThreadsZ;
            break;
        case kMaxGridX:
            *value = INT32_MAX;
            break;
        case kMaxGridY:
        case kMaxGridZ:
            *value = kBlocks;
            break;
        case kSharedBytesPerBlock:
            *value = kSharedBytes;
            break;
        case kConstantBytes:
        case kRegistersPerBlock:
            *value = kRegisters;
            break;
        case kWarpSize:
            *value = metol::emulated::kWarpThreads;
            break;
        case kMultiprocessors:
            *value = 1;
            break;
        case kMajor:
            *value = kCapabilityMajor;
            break;
        default:
            *value = 0;
    }
    return kSuccess;
}

int32_t cuCtxCreate_v2(void** context, uint32_t, int32_t) {
    *context = &only_handle;
    return kSuccess;
}

int32_t cuCtxDestroy_v2(void*) {
    return kSuccess;
}

int32_t cuCtxPushCurrent_v2(void*) {
    return kSuccess;
}

int32_t cuCtxPopCurrent_v2(void** context) {
    if (context != nullptr) {
        *context = &only_handle;
    }
    return kSuccess;
}

int32_t cuCtxGetDevice(int32_t* found) {
    *found = 0;
    return kSuccess;
}

int32_t cuCtxGetApiVersion(void*, uint32_t* version) {
    *version = kVersion;
    return kSuccess;
}

int32_t cuCtxSynchronize() {
    return kSuccess;
}

int32_t cuStreamSynchronize(void*) {
    return kSuccess;
}

int32_t cuProfilerStop() {
    return kSuccess;
}

int32_t cuModuleLoadData(void** loaded, const void* ptx) {
    try {
        auto made = std::make_unique<Module>(metol::emulated::parse_module(static_cast<const char*>(ptx)));
        const std::lock_guard lock(device().mutex);
        for (auto& [name, bytes] : made->variables) {
            device().memory.add(bytes);
        }
        *loaded = made.release();
        return kSuccess;
    } catch (const EmulationError& error) {
        return report("reading PTX", error.what(), kInvalidPtx);
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
}

int32_t cuModuleLoadDataEx(void** loaded, const void* ptx, uint32_t, int32_t*, void**) {
    return cuModuleLoadData(loaded, ptx);
}

int32_t cuModuleUnload(void* loaded) {
    const std::unique_ptr<Module> owned(static_cast<Module*>(loaded));
    const std::lock_guard lock(device().mutex);
    for (auto& [name, bytes] : owned->variables) {
        device().memory.forget(bytes);
    }
    return kSuccess;
}

int32_t cuModuleGetFunction(void** function, void* loaded, const char* name) {
    auto& kernels = static_cast<Module*>(loaded)->kernels;
    const auto found = kernels.find(name);
    if (found == kernels.end()) {
        return report("looking for a kernel", std::string("there is no `") + name + "`", kNotFound);
    }
    *function = &found->second;
    return kSuccess;
}

int32_t cuFuncSetAttribute(void*, int32_t, int32_t) {
    return kSuccess;
}

int32_t cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    const std::lock_guard lock(device().mutex);
    try {
        *address = device().memory.allocate(bytes);
        return kSuccess;
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
}

int32_t cuMemFree_v2(uint64_t address) {
    const std::lock_guard lock(device().mutex);
    return address == 0 || device().memory.release(address) ? kSuccess : kInvalidValue;
}

int32_t cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
    const std::lock_guard lock(device().mutex);
    const int32_t result = check_range(to, bytes, "copying to the device");
    if (result == kSuccess) {
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    }
    return result;
}

int32_t cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    const std::lock_guard lock(device().mutex);
    const int32_t result = check_range(from, bytes, "copying from the device");
    if (result == kSuccess) {
        std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    }
    return result;
}

int32_t cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
    const std::lock_guard lock(device().mutex);
    int32_t result = check_range(from, bytes, "copying on the device");
    result = result == kSuccess ? check_range(to, bytes, "copying on the device") : result;
    if (result == kSuccess) {
        std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    }
    return result;
}

int32_t cuMemcpy3D_v2(const Copy3d* copy) {
    const std::lock_guard lock(device().mutex);
    const bool is_from_host = copy->from_type == kHostMemory;
    const bool is_to_host = copy->to_type == kHostMemory;
    const auto from = is_from_host ? reinterpret_cast<uint64_t>(copy->from_host) : copy->from_device;
    const auto to = is_to_host ? reinterpret_cast<uint64_t>(copy->to_host) : copy->to_device;
    for (size_t z = 0; z < copy->depth; z++) {
        for (size_t y = 0; y < copy->height; y++) {
            const uint64_t source =
                from + copy->from_x + copy->from_pitch * (copy->from_y + y + copy->from_height * (copy->from_z + z));
            const uint64_t target =
                to + copy->to_x + copy->to_pitch * (copy->to_y + y + copy->to_height * (copy->to_z + z));
            int32_t result = is_from_host ? kSuccess : check_range(source, copy->width, "copying from the device");
            result =
                result == kSuccess && !is_to_host ? check_range(target, copy->width, "copying to the device") : result;
            if (result != kSuccess) {
                return result;
            }
            std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), copy->width);
        }
    }
    return kSuccess;
}

// What is asked to be done later is done at once.
int32_t cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
    return cuMemcpyHtoD_v2(to, from, bytes);
}

int32_t cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
    return cuMemcpyDtoH_v2(to, from, bytes);
}

int32_t cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
    return cuMemcpyDtoD_v2(to, from, bytes);
}

int32_t cuMemcpy3DAsync_v2(const Copy3d* copy, void*) {
    return cuMemcpy3D_v2(copy);
}

int32_t cuPointerGetAttribute(void* value, int32_t, uint64_t) {
    // The context that memory is of.
    *static_cast<void**>(value) = &only_handle;
    return kSuccess;
}

int32_t cuLaunchKernel(void* function, uint32_t blocks_x, uint32_t blocks_y, uint32_t blocks_z, uint32_t threads_x,
                       uint32_t threads_y, uint32_t threads_z, uint32_t shared_bytes, void*, void** arguments, void**) {
    const std::lock_guard lock(device().mutex);
    const auto& kernel = *static_cast<const Kernel*>(function);
    Launch launch;
    launch.kernel = &kernel;
    launch.blocks = {static_cast<int32_t>(blocks_x), static_cast<int32_t>(blocks_y), static_cast<int32_t>(blocks_z)};
    launch.threads = {static_cast<int32_t>(threads_x), static_cast<int32_t>(threads_y),
                      static_cast<int32_t>(threads_z)};
    launch.shared_bytes = shared_bytes;
    if (!is_launchable(launch.blocks, launch.threads, launch.shared_bytes + kernel.static_shared_bytes)) {
        return report(kernel.name.c_str(), "more blocks, threads or shared memory than a device has", kInvalidValue);
    }
    launch.parameters.resize(static_cast<size_t>(kernel.parameter_bytes));
    for (size_t i = 0; i < kernel.parameters.size(); i++) {
        const auto& parameter = kernel.parameters[i];
        std::memcpy(launch.parameters.data() + parameter.offset, arguments[i], static_cast<size_t>(parameter.bytes));
    }
    try {
        metol::emulated::run_launch(launch, device().memory);
        return kSuccess;
    } catch (const FaultError& fault) {
        return report("running", fault.what(), static_cast<int32_t>(fault.fault));
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
}

// Not of CUDA: what was refused last, for those that see no more than its code; valid until the next is.
const char* metol_last_fault() {
    return device().fault.c_str();
}

// Names of older drivers, which some ask for.
int32_t cuCtxCreate(void** context, uint32_t flags, int32_t found) {
    return cuCtxCreate_v2(context, flags, found);
}

int32_t cuDeviceTotalMem(size_t* bytes, int32_t found) {
    return cuDeviceTotalMem_v2(bytes, found);
}

}  // extern "C"
