#ifndef PSRT_NCCL_H
#define PSRT_NCCL_H

#include <stddef.h>
#include <stdint.h>

/* NCCL by our own prototypes: results are its own numbers, addresses on a device are
 * numbers, communicators and streams pointers. */
#define PSRT_NCCL_ID_BYTES 128

typedef struct psrt_nccl psrt_nccl;

/* What a version may lack. */
enum {
	PSRT_NCCL_HAS_CONFIG = 1,   /* 2.14: communicators that do not block, and their end in order */
	PSRT_NCCL_HAS_REGISTER = 2, /* 2.19 */
	PSRT_NCCL_HAS_LAST = 4,     /* 2.13: what was wrong, in words */
};

/* NULL with why; never given back. */
psrt_nccl *psrt_nccl_load(const char *path, char *why, size_t n);
int32_t psrt_nccl_version(const psrt_nccl *lib);
uint32_t psrt_nccl_has(const psrt_nccl *lib);
/* comm may be NULL. */
void psrt_nccl_text(const psrt_nccl *lib, int32_t result, void *comm, char *text, size_t n);

int32_t psrt_nccl_id(const psrt_nccl *lib, uint8_t *id);
int32_t psrt_nccl_init(const psrt_nccl *lib, int32_t ranks, const uint8_t *id, int32_t rank, void **comm);
int32_t psrt_nccl_state(const psrt_nccl *lib, void *comm, int32_t *state);
int32_t psrt_nccl_finalize(const psrt_nccl *lib, void *comm);
int32_t psrt_nccl_destroy(const psrt_nccl *lib, void *comm);
int32_t psrt_nccl_abort(const psrt_nccl *lib, void *comm);
int32_t psrt_nccl_register(const psrt_nccl *lib, void *comm, uint64_t at, uint64_t bytes, void **handle);
int32_t psrt_nccl_deregister(const psrt_nccl *lib, void *comm, void *handle);

int32_t psrt_nccl_all_reduce(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op);
int32_t psrt_nccl_reduce_scatter(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op);
int32_t psrt_nccl_all_gather(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type);
int32_t psrt_nccl_broadcast(const psrt_nccl *lib, void *comm, void *stream, uint64_t at, uint64_t count, int32_t type, int32_t root);

/* One rank's part of an exchange; counts of 0 are neither sent nor received. */
typedef struct {
	uint64_t send, sends; /* where, and how many elements */
	uint64_t recv, recvs;
} psrt_nccl_part;

/* Sends to and receives from each of ranks at once, in a group. */
int32_t psrt_nccl_exchange(const psrt_nccl *lib, void *comm, void *stream, const psrt_nccl_part *parts, int32_t ranks, int32_t type);

/* Gives the stream times all-reduces in a row, from C: what a program that calls NCCL
 * itself would have. */
int32_t psrt_nccl_all_reduces(const psrt_nccl *lib, void *comm, void *stream, uint64_t send, uint64_t recv, uint64_t count, int32_t type, int32_t op, int32_t times);

#endif
