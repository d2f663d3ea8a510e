#ifndef PSRT_BLAS_H
#define PSRT_BLAS_H

#include <stdint.h>

/* c = op(a) op(b) + beta c, row-major, op by trans (0 or 1). */
void psrt_sgemm(int trans_a, int trans_b, int32_t m, int32_t n, int32_t k,
                const float *a, int32_t lda, const float *b, int32_t ldb,
                float beta, float *c, int32_t ldc);

/* c and the sum of a[i * a_step] * b[i * b_step], i < k, as chains of fused operations over
 * pieces of k: see Pieces in chains.go. */
float psrt_chain(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t k,
                 int32_t most, int32_t round, float c);

void psrt_blas_set_threads(int32_t n);
int32_t psrt_blas_threads(void);
const char *psrt_blas_config(void);
const char *psrt_blas_core(void);

#endif
