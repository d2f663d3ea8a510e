#ifndef PSRT_NN_H
#define PSRT_NN_H

#include <stdint.h>

/* level: 0 plain C, 1 AVX2, 2 AVX-512. All three give the same bits. */
int psrt_nn_best_level(void);

/* parts: which sums a sparse pass makes */
enum { NN_LINEAR = 1, NN_FM = 2, NN_POOL = 4 };

/* Shapes and operands are described in nn.go, beside their checks. */
void psrt_nn_sparse_forward(int level, int parts, int32_t n, int32_t row_dim,
                            int32_t dim, int32_t fields, const int32_t *offsets,
                            const int32_t *occ, const int32_t *uniq,
                            const uint16_t *field, const float *values,
                            const float *matrix, float bias, float *z, float *s,
                            float *x0);
void psrt_nn_sparse_backward(int level, int parts, int32_t n, int32_t row_dim,
                             int32_t dim, int32_t fields, int32_t uniques,
                             const int32_t *offsets, const int32_t *occ,
                             const int32_t *uniq, const uint16_t *field,
                             const float *values, const float *matrix,
                             const float *g, const float *s, const float *dx0,
                             float *rows);
double psrt_nn_log_loss(int level, int32_t n, float scale, const float *z,
                        const float *labels, float *g, float *preds);
double psrt_nn_square_loss(int level, int32_t n, float scale, const float *z,
                           const float *labels, float *g);
void psrt_nn_sigmoid(int level, int32_t n, const float *z, float *preds);
void psrt_nn_activate(int level, int32_t n, int32_t units, float *a,
                      const float *scale, const float *shift, uint32_t drop,
                      float inverse_keep, uint64_t key, uint64_t first_row);
void psrt_nn_activate_back(int level, int32_t n, int32_t units, const float *a,
                           float inverse_keep, float *d, float *db);
void psrt_nn_normalize(int level, int32_t n, int32_t units, float *z, float *mean,
                       float *variance, float *inverse);
void psrt_nn_normalize_back(int level, int32_t n, int32_t units,
                            const float *normalized, const float *gamma,
                            const float *inverse, float *d, float *dgamma,
                            const float *dbeta);
void psrt_nn_output(int level, int32_t n, int32_t units, const float *a,
                    const float *w, float *z);
void psrt_nn_output_back(int level, int32_t n, int32_t units, const float *a,
                         const float *w, const float *g, float *d, float *dw);
void psrt_nn_cross(int level, int32_t n, int32_t units, const float *x0,
                   const float *x, const float *bias, float *u, float *out);
void psrt_nn_cross_back(int level, int32_t n, int32_t units, const float *x0,
                        const float *u, const float *d, float *du, float *dx0,
                        float *db);

#endif
