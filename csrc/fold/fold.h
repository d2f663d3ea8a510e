#ifndef PSRT_FOLD_H
#define PSRT_FOLD_H

#include <stdint.h>

/* The same layout as Go's Merge. */
typedef struct {
	int32_t dst, src;
} psrt_fold_merge;

/* Memories are addresses: none is kept. */
typedef struct {
	int32_t type, op, root, past;
	int64_t bytes, divide;
	int64_t nsrcs, ndsts, nsteps;
} psrt_fold_job;

enum { PSRT_FOLD_I8, PSRT_FOLD_U8, PSRT_FOLD_I32, PSRT_FOLD_U32, PSRT_FOLD_I64, PSRT_FOLD_U64, PSRT_FOLD_F16, PSRT_FOLD_BF16, PSRT_FOLD_F32, PSRT_FOLD_F64, PSRT_FOLD_TYPES };
enum { PSRT_FOLD_SUM, PSRT_FOLD_PROD, PSRT_FOLD_MIN, PSRT_FOLD_MAX, PSRT_FOLD_OPS };

/* The best level of this CPU: 1 portable, 2 AVX2, 3 AVX-512. */
int32_t psrt_fold_level(void);

/* Returns 0, or -1 where there is no memory for the tiles: nothing is written. */
int32_t psrt_fold(int32_t level, const psrt_fold_job *job, const uintptr_t *dsts, const uintptr_t *srcs, const psrt_fold_merge *steps);

#endif
