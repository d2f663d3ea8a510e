/* Holds our numbers and prototypes against CUDA's own cuda.h, whose folder .ci/cuda-header.sh
 * is given. All versions of a function have their names there for who makes the library. */
#define __CUDA_API_VERSION_INTERNAL
#include <stddef.h>

#include <cuda.h>

#define PSRT_CU_HEADER
#include "driver.h"

#define F(field, name, args) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult (*) args), #name " takes other arguments");
PSRT_CU_FUNCTIONS(F)
#undef F
_Static_assert(__builtin_types_compatible_p(__typeof__(&cuMemGetHandleForAddressRange), __typeof__(psrt_cu.address_handle)), "cuMemGetHandleForAddressRange takes other arguments");
_Static_assert(__builtin_types_compatible_p(__typeof__(&cuFlushGPUDirectRDMAWrites), __typeof__(psrt_cu.flush)), "cuFlushGPUDirectRDMAWrites takes other arguments");

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)

/* Those of cuda.h that are not named, in driver.h's own types. */
#define UNSIGNED(type) _Static_assert(__builtin_types_compatible_p(type, unsigned), #type " is not unsigned")
UNSIGNED(CUresult);
UNSIGNED(CUdevice_attribute);
UNSIGNED(CUpointer_attribute);
UNSIGNED(CUjit_option);
UNSIGNED(CUmemRangeHandleType);
UNSIGNED(CUmemorytype);
UNSIGNED(CUflushGPUDirectRDMAWritesTarget);
UNSIGNED(CUflushGPUDirectRDMAWritesScope);
_Static_assert(__builtin_types_compatible_p(CUdevice, int), "CUdevice is not int");
_Static_assert(__builtin_types_compatible_p(CUdeviceptr, unsigned long long), "CUdeviceptr is not unsigned long long");

SAME(sizeof(struct psrt_cu_rect), sizeof(CUDA_MEMCPY2D));
#define AT(ours, theirs) SAME(offsetof(struct psrt_cu_rect, ours), offsetof(CUDA_MEMCPY2D, theirs))
AT(from.x, srcXInBytes);
AT(from.y, srcY);
AT(from.type, srcMemoryType);
AT(from.host, srcHost);
AT(from.device, srcDevice);
AT(from.array, srcArray);
AT(from.pitch, srcPitch);
AT(to.x, dstXInBytes);
AT(to.y, dstY);
AT(to.type, dstMemoryType);
AT(to.host, dstHost);
AT(to.device, dstDevice);
AT(to.array, dstArray);
AT(to.pitch, dstPitch);
AT(width, WidthInBytes);
AT(height, Height);

SAME(PSRT_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(PSRT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(PSRT_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(PSRT_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(PSRT_CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(PSRT_CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(PSRT_CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(PSRT_CU_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME(PSRT_CU_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(PSRT_CU_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(PSRT_CU_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(PSRT_CU_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(PSRT_CU_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(PSRT_CU_OF_HOST, CU_MEMORYTYPE_HOST);
SAME(PSRT_CU_OF_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(PSRT_CU_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SAME(PSRT_CU_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(PSRT_CU_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(PSRT_CU_DMABUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(PSRT_CU_FLUSH_OPTIONS, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
SAME(PSRT_CU_WRITES_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME(PSRT_CU_FLUSH_BY_HOST, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
SAME(PSRT_CU_ORDERED_FOR_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
SAME(PSRT_CU_FLUSH_CONTEXT, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
SAME(PSRT_CU_FLUSH_TO_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
