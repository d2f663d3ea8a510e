#ifndef PSRT_BLAS_H
#define PSRT_BLAS_H

#include <stdint.h>

/* c = op(a) op(b) + beta c, row-major, op by trans (0 or 1). */
void psrt_sgemm(int trans_a, int trans_b, int32_t m, int32_t n, int32_t k,
                const float *a, int32_t lda, const float *b, int32_t ldb,
                float beta, float *c, int32_t ldc);

void psrt_blas_set_threads(int32_t n);
int32_t psrt_blas_threads(void);
const char *psrt_blas_config(void);
const char *psrt_blas_core(void);

#endif
