#include "blas.h"

#include <math.h>
#include <stdlib.h>

/* OpenBLAS's own symbols, declared here so that the build needs its archive
 * but not the header of whichever BLAS the machine's alternatives point at. */
extern void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k,
                        float alpha, const float *a, int lda, const float *b,
                        int ldb, float beta, float *c, int ldc);
extern void openblas_set_num_threads(int n);
extern int openblas_get_num_threads(void);
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* OpenBLAS starts one thread per core in its constructor unless told by the
 * environment. This one runs before it (a constructor with a priority goes
 * ahead of those without), so no pool is ever made. Go has already taken its
 * copy of the environment from the kernel: child processes do not see it. */
__attribute__((constructor(101))) static void one_thread(void) {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

void psrt_sgemm(int trans_a, int trans_b, int32_t m, int32_t n, int32_t k,
                const float *a, int32_t lda, const float *b, int32_t ldb,
                float beta, float *c, int32_t ldc) {
  cblas_sgemm(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS,
              m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}

float psrt_chain(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t k,
                 int32_t most, int32_t round, float c) {
  for (int32_t from = 0, to; from < k; from = to) {
    const int32_t left = k - from;
    to = left >= 2 * (int64_t)most ? from + most
         : left > most ? from + (left / 2 + round - 1) / round * round
                       : k;
    float sum = 0;
    for (int32_t i = from; i < to; i++)
      sum = fmaf(a[(size_t)i * a_step], b[(size_t)i * b_step], sum);
    c += sum;
  }
  return c;
}

void psrt_blas_set_threads(int32_t n) { openblas_set_num_threads(n); }
int32_t psrt_blas_threads(void) { return openblas_get_num_threads(); }
const char *psrt_blas_config(void) { return openblas_get_config(); }
const char *psrt_blas_core(void) { return openblas_get_corename(); }
