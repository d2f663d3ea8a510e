#ifndef PSRT_KERNELS_H
#define PSRT_KERNELS_H

#include <stdint.h>

/* The same layout as Go's Rule. */
typedef struct {
	int32_t kind;
	float lr, beta1, beta2, eps, l1, l2, beta;
} psrt_rule;

enum { PSRT_SGD, PSRT_ADAGRAD, PSRT_ROWADAGRAD, PSRT_ADAM, PSRT_FTRL, PSRT_EMA, PSRT_ACCUMULATE, PSRT_ASSIGN };

/* The same layout as Go's Merge. */
typedef struct {
	int32_t dst, src;
} psrt_merge;

/* Row i is the stride floats at bases[i >> shift] + (i mod 2^shift) * stride. */
typedef struct {
	uint64_t stride, count;
	uint32_t shift;
} psrt_rows;

/* Sources of a sum: addresses of the data and of the index, and whole rows. */
typedef struct {
	uintptr_t data, index;
	int64_t rows;
} psrt_source;

enum { PSRT_OK = -1, PSRT_NOMEM = -2 };

/* The best level of this CPU: 1 portable, 2 AVX2, 3 AVX-512. */
int32_t psrt_kernel_level(void);

void psrt_gather(int32_t level, float *dst, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n);
int64_t psrt_update(int32_t level, const psrt_rule *rule, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *grads);
int64_t psrt_update_into(int32_t level, const psrt_rule *rule, int64_t n, float *o, const float *w, float *s, const float *g);
float psrt_scan(int32_t level, const float *src, int64_t len);
int64_t psrt_sum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n);

/* Returns PSRT_OK, PSRT_NOMEM, or the number of a source that is indexed beyond
 * its rows. */
int64_t psrt_treesum_rows(int32_t level, float *dst, int64_t dim, int64_t rows, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges);
int64_t psrt_treesum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges);

#endif
