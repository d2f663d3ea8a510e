/* The driver's functions, by the names and versions that its library has. */
#ifndef PSRT_CUDA_DRIVER_H
#define PSRT_CUDA_DRIVER_H

#include "cuda.h"

typedef unsigned long long psrt_cu_ptr;

/* CUDA_MEMCPY2D: a rectangle of bytes. */
struct psrt_cu_end {
	size_t x, y;
	int type;
	void *host;
	psrt_cu_ptr device;
	void *array;
	size_t pitch;
};

struct psrt_cu_rect {
	struct psrt_cu_end from, to;
	size_t width, height;
};

#define PSRT_CU_FUNCTIONS(F) \
	F(init, "cuInit", (unsigned)) \
	F(version, "cuDriverGetVersion", (int *)) \
	F(count, "cuDeviceGetCount", (int *)) \
	F(device, "cuDeviceGet", (int *, int)) \
	F(name, "cuDeviceGetName", (char *, int, int)) \
	F(bus, "cuDeviceGetPCIBusId", (char *, int, int)) \
	F(bytes, "cuDeviceTotalMem_v2", (size_t *, int)) \
	F(attribute, "cuDeviceGetAttribute", (int *, int, int)) \
	F(error_name, "cuGetErrorName", (int, const char **)) \
	F(error_string, "cuGetErrorString", (int, const char **)) \
	F(retain, "cuDevicePrimaryCtxRetain", (void **, int)) \
	F(release, "cuDevicePrimaryCtxRelease_v2", (int)) \
	F(push, "cuCtxPushCurrent_v2", (void *)) \
	F(pop, "cuCtxPopCurrent_v2", (void **)) \
	F(current, "cuCtxGetCurrent", (void **)) \
	F(state, "cuDevicePrimaryCtxGetState", (int, unsigned *, int *)) \
	F(pointer, "cuPointerGetAttribute", (void *, int, psrt_cu_ptr)) \
	F(room, "cuMemGetInfo_v2", (size_t *, size_t *)) \
	F(alloc, "cuMemAlloc_v2", (psrt_cu_ptr *, size_t)) \
	F(free, "cuMemFree_v2", (psrt_cu_ptr)) \
	F(host_alloc, "cuMemHostAlloc", (void **, size_t, unsigned)) \
	F(host_free, "cuMemFreeHost", (void *)) \
	F(pin, "cuMemHostRegister_v2", (void *, size_t, unsigned)) \
	F(unpin, "cuMemHostUnregister", (void *)) \
	F(stream, "cuStreamCreate", (void **, unsigned)) \
	F(stream_end, "cuStreamDestroy_v2", (void *)) \
	F(stream_wait, "cuStreamWaitEvent", (void *, void *, unsigned)) \
	F(event, "cuEventCreate", (void **, unsigned)) \
	F(event_end, "cuEventDestroy_v2", (void *)) \
	F(record, "cuEventRecord", (void *, void *)) \
	F(query, "cuEventQuery", (void *)) \
	F(await, "cuEventSynchronize", (void *)) \
	F(between, "cuEventElapsedTime", (float *, void *, void *)) \
	F(to_device, "cuMemcpyHtoDAsync_v2", (psrt_cu_ptr, const void *, size_t, void *)) \
	F(to_host, "cuMemcpyDtoHAsync_v2", (void *, psrt_cu_ptr, size_t, void *)) \
	F(rows_to_host, "cuMemcpy2DAsync_v2", (const struct psrt_cu_rect *, void *)) \
	F(within, "cuMemcpyDtoDAsync_v2", (psrt_cu_ptr, psrt_cu_ptr, size_t, void *)) \
	F(fill, "cuMemsetD8Async", (psrt_cu_ptr, unsigned char, size_t, void *)) \
	F(module, "cuModuleLoadDataEx", (void **, const void *, unsigned, int *, void **)) \
	F(module_end, "cuModuleUnload", (void *)) \
	F(function, "cuModuleGetFunction", (void **, void *, const char *)) \
	F(launch, "cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

struct psrt_cu {
#define F(field, name, args) int (*field) args;
	PSRT_CU_FUNCTIONS(F)
#undef F
	/* Since CUDA 11.7. */
	int (*address_handle)(void *, psrt_cu_ptr, size_t, int, unsigned long long);
};

extern struct psrt_cu psrt_cu;

/* Values of cuda.h, as the driver's documentation has them. */
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
};

#endif
