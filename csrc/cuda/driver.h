/* The driver's functions, by the names and versions that its library has. */
#ifndef PSRT_CUDA_DRIVER_H
#define PSRT_CUDA_DRIVER_H

#include "cuda.h"

/* By the names of cuda.h, whose own .ci/cuda-header.sh puts in their place. Its enumerations
 * are unsigned to a compiler, as they have no negative values. */
#ifndef PSRT_CU_HEADER
typedef unsigned CUresult, CUdevice_attribute, CUpointer_attribute, CUjit_option, CUmemRangeHandleType;
typedef unsigned CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope;
typedef int CUdevice;
typedef void *CUcontext, *CUstream, *CUevent, *CUmodule, *CUfunction;
typedef unsigned long long CUdeviceptr;
typedef struct psrt_cu_rect CUDA_MEMCPY2D;
#endif

/* A rectangle of bytes. */
struct psrt_cu_end {
	size_t x, y;
	int type;
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct psrt_cu_rect {
	struct psrt_cu_end from, to;
	size_t width, height;
};

#define PSRT_CU_FUNCTIONS(F) \
	F(init, cuInit, (unsigned)) \
	F(version, cuDriverGetVersion, (int *)) \
	F(count, cuDeviceGetCount, (int *)) \
	F(device, cuDeviceGet, (CUdevice *, int)) \
	F(name, cuDeviceGetName, (char *, int, CUdevice)) \
	F(bus, cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
	F(bytes, cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
	F(attribute, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice)) \
	F(error_name, cuGetErrorName, (CUresult, const char **)) \
	F(error_string, cuGetErrorString, (CUresult, const char **)) \
	F(retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	F(release, cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
	F(push, cuCtxPushCurrent_v2, (CUcontext)) \
	F(pop, cuCtxPopCurrent_v2, (CUcontext *)) \
	F(current, cuCtxGetCurrent, (CUcontext *)) \
	F(state, cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *)) \
	F(pointer, cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr)) \
	F(room, cuMemGetInfo_v2, (size_t *, size_t *)) \
	F(alloc, cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	F(free, cuMemFree_v2, (CUdeviceptr)) \
	F(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned)) \
	F(host_free, cuMemFreeHost, (void *)) \
	F(pin, cuMemHostRegister_v2, (void *, size_t, unsigned)) \
	F(unpin, cuMemHostUnregister, (void *)) \
	F(stream, cuStreamCreate, (CUstream *, unsigned)) \
	F(stream_end, cuStreamDestroy_v2, (CUstream)) \
	F(stream_wait, cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	F(event, cuEventCreate, (CUevent *, unsigned)) \
	F(event_end, cuEventDestroy_v2, (CUevent)) \
	F(record, cuEventRecord, (CUevent, CUstream)) \
	F(query, cuEventQuery, (CUevent)) \
	F(await, cuEventSynchronize, (CUevent)) \
	F(between, cuEventElapsedTime, (float *, CUevent, CUevent)) \
	F(to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	F(to_host, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	F(rows_to_host, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream)) \
	F(within, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	F(fill, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	F(module, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, CUjit_option *, void **)) \
	F(module_end, cuModuleUnload, (CUmodule)) \
	F(function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	F(launch, cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))

struct psrt_cu {
#define F(field, name, args) CUresult (*field) args;
	PSRT_CU_FUNCTIONS(F)
#undef F
	/* Since CUDA 11.7. */
	CUresult (*address_handle)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
	/* Since CUDA 11.3. */
	CUresult (*flush)(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope);
};

extern struct psrt_cu psrt_cu;

/* Values of cuda.h; .ci/cuda-header.sh holds them against it. */
enum {
	PSRT_CU_INVALID_VALUE = 1,
	PSRT_CU_OUT_OF_MEMORY = 2,
	PSRT_CU_NOT_READY = 600,
	PSRT_CU_NOT_SUPPORTED = 801,
	PSRT_CU_MAJOR = 75, /* attributes: compute capability */
	PSRT_CU_MINOR = 76,
	PSRT_CU_NON_BLOCKING = 1, /* streams */
	PSRT_CU_BLOCKING_SYNC = 1, /* events */
	PSRT_CU_NO_TIMING = 2,
	PSRT_CU_PORTABLE = 1, /* memory of the host */
	PSRT_CU_MEMORY_TYPE = 2, /* attributes of an address */
	PSRT_CU_ORDINAL = 9,
	PSRT_CU_OF_HOST = 1, /* types of memory */
	PSRT_CU_OF_DEVICE = 2,
	PSRT_CU_UNIFIED = 4,
	PSRT_CU_LOG = 5,      /* options of the compiler: a buffer for its errors, and its size */
	PSRT_CU_LOG_BYTES = 6,
	PSRT_CU_DMABUF = 1,
	PSRT_CU_FLUSH_OPTIONS = 117, /* attributes: how writes of network cards come to be seen */
	PSRT_CU_WRITES_ORDERING = 118,
	PSRT_CU_FLUSH_BY_HOST = 1,
	PSRT_CU_ORDERED_FOR_OWNER = 100,
	PSRT_CU_FLUSH_CONTEXT = 0, /* what is flushed, and for whom */
	PSRT_CU_FLUSH_TO_OWNER = 100,
};

#endif
