#ifndef PSRT_BARE_H
#define PSRT_BARE_H

#include <stdint.h>

/* A quarter of a cache line; the same layout as Go's Slot. */
typedef struct {
	uint64_t key;
	uint32_t row;
	uint32_t zero;
} psrt_bare_slot;

typedef struct {
	psrt_bare_slot *slots;
	uint64_t count;   /* slots and rows there are */
	uint64_t inverse; /* of the odd number: key x inverse - first is the key's place */
	uint64_t first;
	float *rows;
	int64_t stride; /* floats from row to row */
} psrt_bare_table;

int32_t psrt_bare_level(void);
void psrt_bare_find(const psrt_bare_table *t, const uint64_t *keys, int64_t n, uint32_t *ids);
void psrt_bare_pull(int32_t level, const psrt_bare_table *t, const uint64_t *keys, int64_t n, int64_t dim, float *dst);
void psrt_bare_update(int32_t level, const psrt_bare_table *t, const uint32_t *ids, int64_t n, int64_t dim, const float *grads, float rate);
void psrt_bare_insert(int32_t level, const psrt_bare_table *t, const uint64_t *keys, int64_t n, uint32_t next, const float *values);

#endif
