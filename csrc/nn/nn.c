#include "nn.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Flags that cgo would refuse on its command line: no errno from sqrt and no
 * exact exception flags, either of which keeps loops from being vectorised.
 * Neither changes a result. */
#pragma GCC optimize("no-math-errno", "no-trapping-math")

#define FN(name) name##_plain
#include "body.h"
#undef FN

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx2")
#define FN(name) name##_avx2
#include "body.h"
#undef FN
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#define FN(name) name##_avx512
#include "body.h"
#undef FN
#pragma GCC pop_options

int psrt_nn_best_level(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return 2;
  return __builtin_cpu_supports("avx2") ? 1 : 0;
}

#define PICK(name, ...)                                                        \
  (level == 2   ? name##_avx512(__VA_ARGS__)                                   \
   : level == 1 ? name##_avx2(__VA_ARGS__)                                     \
                : name##_plain(__VA_ARGS__))

#else

int psrt_nn_best_level(void) { return 0; }

#define PICK(name, ...) ((void)level, name##_plain(__VA_ARGS__))

#endif

void psrt_nn_sparse_forward(int level, int parts, int32_t n, int32_t row_dim,
                            int32_t dim, int32_t fields, const int32_t *offsets,
                            const int32_t *occ, const int32_t *uniq,
                            const uint16_t *field, const float *values,
                            const float *matrix, float bias, float *z, float *s,
                            float *x0) {
  PICK(sparse_forward, parts, n, row_dim, dim, fields, offsets, occ, uniq, field,
       values, matrix, bias, z, s, x0);
}

void psrt_nn_sparse_backward(int level, int parts, int32_t n, int32_t row_dim,
                             int32_t dim, int32_t fields, int32_t uniques,
                             const int32_t *offsets, const int32_t *occ,
                             const int32_t *uniq, const uint16_t *field,
                             const float *values, const float *matrix,
                             const float *g, const float *s, const float *dx0,
                             float *rows) {
  PICK(sparse_backward, parts, n, row_dim, dim, fields, uniques, offsets, occ, uniq,
       field, values, matrix, g, s, dx0, rows);
}

double psrt_nn_log_loss(int level, int32_t n, float scale, const float *z,
                        const float *labels, float *g, float *preds) {
  return PICK(log_loss, n, scale, z, labels, g, preds);
}

double psrt_nn_square_loss(int level, int32_t n, float scale, const float *z,
                           const float *labels, float *g) {
  return PICK(square_loss, n, scale, z, labels, g);
}

void psrt_nn_sigmoid(int level, int32_t n, const float *z, float *preds) {
  PICK(sigmoid, n, z, preds);
}

void psrt_nn_activate(int level, int32_t n, int32_t units, float *a,
                      const float *scale, const float *shift, uint32_t drop,
                      float inverse_keep, uint64_t key, uint64_t first_row) {
  PICK(activate, n, units, a, scale, shift, drop, inverse_keep, key, first_row);
}

void psrt_nn_activate_back(int level, int32_t n, int32_t units, const float *a,
                           float inverse_keep, float *d, float *db) {
  PICK(activate_back, n, units, a, inverse_keep, d, db);
}

void psrt_nn_normalize(int level, int32_t n, int32_t units, float *z, float *mean,
                       float *variance, float *inverse) {
  PICK(normalize, n, units, z, mean, variance, inverse);
}

void psrt_nn_normalize_back(int level, int32_t n, int32_t units,
                            const float *normalized, const float *gamma,
                            const float *inverse, float *d, float *dgamma,
                            const float *dbeta) {
  PICK(normalize_back, n, units, normalized, gamma, inverse, d, dgamma, dbeta);
}

void psrt_nn_output(int level, int32_t n, int32_t units, const float *a,
                    const float *w, float *z) {
  PICK(output, n, units, a, w, z);
}

void psrt_nn_output_back(int level, int32_t n, int32_t units, const float *a,
                         const float *w, const float *g, float *d, float *dw) {
  PICK(output_back, n, units, a, w, g, d, dw);
}

void psrt_nn_cross(int level, int32_t n, int32_t units, const float *x0,
                   const float *x, const float *bias, float *u, float *out) {
  PICK(cross, n, units, x0, x, bias, u, out);
}

void psrt_nn_cross_back(int level, int32_t n, int32_t units, const float *x0,
                        const float *u, const float *d, float *du, float *dx0,
                        float *db) {
  PICK(cross_back, n, units, x0, u, d, du, dx0, db);
}
