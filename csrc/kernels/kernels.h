#ifndef PSRT_KERNELS_H
#define PSRT_KERNELS_H

#include <stdint.h>

/* The same layout as Go's Rule. */
typedef struct {
	int32_t kind;
	float lr, beta1, beta2, eps, l1, l2, beta;
} psrt_rule;

enum { PSRT_SGD, PSRT_ADAGRAD, PSRT_ROWADAGRAD, PSRT_ADAM, PSRT_FTRL, PSRT_EMA, PSRT_ACCUMULATE, PSRT_ASSIGN,
       PSRT_PAST_ADAGRAD, PSRT_PAST_ADAGRAD_EACH, PSRT_SHARED_ADAM };

/* The same layout as Go's Parts. Part 0 is the first weight, 1 the vector. */
typedef struct {
	psrt_rule rule[2];
	float lo[2], hi[2];
	int32_t bounded[2];
	int32_t dim, vector_state, life; /* floats of a row: weights; where the vector's state and the words begin */
	uint32_t seq;
	int32_t admit_by, show_scale;
	double nonclk, click, extend_at, admit_at;
} psrt_parts;

enum { PSRT_ADMIT_ALWAYS, PSRT_ADMIT_SHOW, PSRT_ADMIT_SCORE };
enum { PSRT_SHOW = 0, PSRT_CLICK = 2, PSRT_DELTA = 4, PSRT_SEQ = 8, PSRT_UNSEEN = 9, PSRT_SLOT = 10, PSRT_LIFE = 11 };
enum { PSRT_ADMITTED = 1, PSRT_EXTENDED = 2, PSRT_COUNTS = 3, PSRT_MAX_DIM = 4096 };

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

/* Row i goes to dst + i * step. */
void psrt_gather(int32_t level, float *dst, int64_t step, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n);
int64_t psrt_update(int32_t level, const psrt_rule *rule, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *grads);
int64_t psrt_update_into(int32_t level, const psrt_rule *rule, int64_t n, float *o, const float *w, float *s, const float *g);
void psrt_gather_parts(int32_t level, const psrt_parts *parts, float *dst, int64_t step, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n);
int64_t psrt_update_parts(int32_t level, const psrt_parts *parts, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *push);
/* Writes the places in ids of rows whose seq is not seq, and returns how many. */
int64_t psrt_lagging(int32_t level, int64_t life, uint32_t seq, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, uint32_t *out);
float psrt_scan(int32_t level, const float *src, int64_t len);
int64_t psrt_sum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n);

/* Returns PSRT_OK, PSRT_NOMEM, or the number of a source that is indexed beyond
 * its rows. */
int64_t psrt_treesum_rows(int32_t level, float *dst, int64_t dim, int64_t rows, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges);
int64_t psrt_treesum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges);

#endif
