#ifndef PSRT_INDEX_H
#define PSRT_INDEX_H

#include "probe.h"

enum { PSRT_SLOTS = 5, PSRT_TAKEN = 31, PSRT_PASSED = 32 };

/* Homes moved per insertion while growing: a table that is 80 % full is moved
 * before it is 85 % full. Go's sweepHomes. */
enum { PSRT_SWEEP = 4 };

/* The same layout as Go's Bucket: one cache line. */
typedef struct {
	uint64_t key[PSRT_SLOTS];
	uint32_t row[PSRT_SLOTS];
	uint32_t meta;
} psrt_bucket;

/* The same layout as Go's state. [0] is the table in use, [1] the larger one
 * being filled while growing (homes[1] is 0 when not). */
typedef struct {
	uint64_t seed;
	uint64_t homes[2];   /* buckets that can be a home */
	uint64_t buckets[2]; /* buckets there are: homes and what passed the last of them */
	uint64_t swept;      /* homes of [0] already moved to [1] */
	uint64_t count;      /* keys */
	uint64_t deleted;    /* since the last sweep began: their homes keep marks of keys that passed */
	uint64_t next_row, row_limit;
	uint32_t seg_shift; /* buckets of a segment, as a power of two */
	uint32_t halfway;   /* home `swept` was being moved when memory ran out: its keys are in both tables */
} psrt_index;

/* Why upsert stopped. */
enum { PSRT_DONE, PSRT_NEED_OLD, PSRT_NEED_NEW, PSRT_NEED_ROWS, PSRT_NEED_GROWTH };

typedef struct {
	int64_t done;    /* keys answered */
	int64_t created; /* of them new, their keys in order in the list of new keys */
	int32_t status;
} psrt_upsert_result;

/* portable: by the loop that runs on any machine. */
void psrt_index_find(const psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, uint32_t *rows, int32_t portable);
int32_t psrt_index_upsert(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, uint32_t *rows, uint64_t *fresh, psrt_upsert_result *result);
/* before: what each key had, or NO_ROW; may be null. */
void psrt_index_set(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, const uint32_t *rows, uint32_t *before, psrt_upsert_result *result);
int64_t psrt_index_replace(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, const uint32_t *rows);
int64_t psrt_index_delete(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n);
int32_t psrt_index_sweep(psrt_index *x, const uintptr_t *old, const uintptr_t *new, int64_t homes);

#endif
