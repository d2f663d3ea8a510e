/* The library's functions, with the version that each came in. */
#ifndef PSRT_NCCL_LIBRARY_H
#define PSRT_NCCL_LIBRARY_H

#include "nccl.h"

/* Passed by value, as NCCL has it. */
typedef struct {
	char bytes[PSRT_NCCL_ID_BYTES];
} psrt_nccl_id_value;

/* The first form of NCCL's ncclConfig_t, of 2.14; later versions know by size and version
 * that the rest is not there. */
typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	int blocking;
} psrt_nccl_config;

#define PSRT_NCCL_MAGIC 0xcafebeefu
#define PSRT_NCCL_CONFIG_VERSION 21400u

#define PSRT_NCCL_FUNCTIONS(F) \
	F(get_version, "ncclGetVersion", "2.0", (int *)) \
	F(get_id, "ncclGetUniqueId", "2.0", (psrt_nccl_id_value *)) \
	F(init_rank, "ncclCommInitRank", "2.0", (void **, int, psrt_nccl_id_value, int)) \
	F(destroy, "ncclCommDestroy", "2.0", (void *)) \
	F(all_reduce, "ncclAllReduce", "2.0", (const void *, void *, size_t, int, int, void *, void *)) \
	F(reduce_scatter, "ncclReduceScatter", "2.0", (const void *, void *, size_t, int, int, void *, void *)) \
	F(all_gather, "ncclAllGather", "2.0", (const void *, void *, size_t, int, void *, void *)) \
	F(broadcast, "ncclBroadcast", "2.2", (const void *, void *, size_t, int, int, void *, void *)) \
	F(group_start, "ncclGroupStart", "2.0", (void)) \
	F(group_end, "ncclGroupEnd", "2.0", (void)) \
	F(async_error, "ncclCommGetAsyncError", "2.4", (void *, int *)) \
	F(abort, "ncclCommAbort", "2.4", (void *)) \
	F(send, "ncclSend", "2.7", (const void *, size_t, int, int, void *, void *)) \
	F(recv, "ncclRecv", "2.7", (void *, size_t, int, int, void *, void *))

#define PSRT_NCCL_OPTIONAL(F) \
	F(init_config, "ncclCommInitRankConfig", "2.14", (void **, int, psrt_nccl_id_value, int, psrt_nccl_config *)) \
	F(finalize, "ncclCommFinalize", "2.14", (void *)) \
	F(reg, "ncclCommRegister", "2.19", (void *, void *, size_t, void **)) \
	F(dereg, "ncclCommDeregister", "2.19", (void *, void *))

struct psrt_nccl {
#define F(field, name, since, args) int (*field) args;
	PSRT_NCCL_FUNCTIONS(F)
	PSRT_NCCL_OPTIONAL(F)
#undef F
	const char *(*error_string)(int);
	const char *(*last_error)(void *);
	int version;
};

#endif
