/* The kernels, included once per instruction level by nn.c with FN(name)
 * giving each level its own names. What makes the levels bit-equal: loops
 * whose iterations are independent (any vector width gives the same bits),
 * sums over examples in example order, sums within a row in LANES lanes with
 * one fixed reduction, and no contraction of multiply and add. */

#define LANES 16

static inline float FN(reduce)(float *lane) {
  for (int width = LANES / 2; width > 0; width /= 2)
    for (int l = 0; l < width; l++) lane[l] += lane[l + width];
  return lane[0];
}

/* One example's occurrences. dim and parts are constants where it matters, and
 * the branches and inner loops fold away. */
static inline __attribute__((always_inline)) void FN(forward_rows)(
    const int parts, const int dim, int32_t n, int32_t row_dim, int32_t fields,
    const int32_t *restrict offsets, const int32_t *restrict occ,
    const int32_t *restrict uniq, const uint16_t *restrict field,
    const float *restrict values, const float *restrict matrix, float bias,
    float *restrict z, float *restrict s, float *restrict x0) {
  const int weights = parts & NN_LINEAR ? 1 : 0;
  for (int32_t i = 0; i < n; i++) {
    float linear = 0, square[LANES] = {0};
    float *restrict sum = parts & NN_FM ? s + (size_t)i * dim : NULL;
    float *restrict pool = parts & NN_POOL ? x0 + (size_t)i * fields * dim : NULL;
    if (parts & NN_FM)
      for (int k = 0; k < dim; k++) sum[k] = 0;
    if (parts & NN_POOL) memset(pool, 0, sizeof(float) * fields * dim);
    for (int32_t j = offsets[i]; j < offsets[i + 1]; j++) {
      const float *restrict row = matrix + (size_t)uniq[occ[j]] * row_dim;
      const float x = values[j];
      if (parts & NN_LINEAR) linear += row[0] * x;
      const float *restrict v = row + weights;
      if (parts & NN_FM)
        for (int block = 0; block < dim; block += LANES) {
          const int width = dim - block < LANES ? dim - block : LANES;
          for (int l = 0; l < width; l++) {
            const float t = v[block + l] * x;
            sum[block + l] += t;
            square[l] += t * t;
          }
        }
      if (parts & NN_POOL) {
        float *restrict p = pool + (size_t)field[j] * dim;
        for (int k = 0; k < dim; k++) p[k] += v[k] * x;
      }
    }
    float out = bias + linear;
    if (parts & NN_FM) {
      float total[LANES] = {0};
      for (int block = 0; block < dim; block += LANES) {
        const int width = dim - block < LANES ? dim - block : LANES;
        for (int l = 0; l < width; l++)
          total[l] += sum[block + l] * sum[block + l];
      }
      for (int l = 0; l < LANES; l++) total[l] -= square[l];
      out += 0.5f * FN(reduce)(total);
    }
    z[i] = out;
  }
}

static inline __attribute__((always_inline)) void FN(backward_rows)(
    const int parts, const int dim, int32_t n, int32_t row_dim, int32_t fields,
    const int32_t *restrict offsets, const int32_t *restrict occ,
    const int32_t *restrict uniq, const uint16_t *restrict field,
    const float *restrict values, const float *restrict matrix,
    const float *restrict g, const float *restrict s, const float *restrict dx0,
    float *restrict rows) {
  const int weights = parts & NN_LINEAR ? 1 : 0;
  for (int32_t i = 0; i < n; i++) {
    const float *restrict sum = parts & NN_FM ? s + (size_t)i * dim : NULL;
    const float *restrict pool =
        parts & NN_POOL ? dx0 + (size_t)i * fields * dim : NULL;
    const float gi = g[i];
    for (int32_t j = offsets[i]; j < offsets[i + 1]; j++) {
      float *restrict grad = rows + (size_t)occ[j] * row_dim;
      const float *restrict v = matrix + (size_t)uniq[occ[j]] * row_dim + weights;
      const float x = values[j], gx = gi * x;
      if (parts & NN_LINEAR) grad[0] += gx;
      grad += weights;
      if ((parts & NN_FM) && (parts & NN_POOL)) {
        const float *restrict p = pool + (size_t)field[j] * dim;
        for (int k = 0; k < dim; k++)
          grad[k] += gx * (sum[k] - v[k] * x) + x * p[k];
      } else if (parts & NN_FM) {
        for (int k = 0; k < dim; k++) grad[k] += gx * (sum[k] - v[k] * x);
      } else if (parts & NN_POOL) {
        const float *restrict p = pool + (size_t)field[j] * dim;
        for (int k = 0; k < dim; k++) grad[k] += x * p[k];
      }
    }
  }
}

/* The common dimensions and every combination of parts get their own code. */
#define WITH_DIM(PARTS)                                                        \
  switch (dim) {                                                               \
    case 8: PASS(PARTS, 8); break;                                             \
    case 16: PASS(PARTS, 16); break;                                           \
    case 32: PASS(PARTS, 32); break;                                           \
    default: PASS(PARTS, dim);                                                 \
  }
#define WITH_PARTS                                                             \
  switch (parts) {                                                             \
    case NN_LINEAR: PASS(NN_LINEAR, dim); break;                               \
    case NN_LINEAR | NN_FM: WITH_DIM(NN_LINEAR | NN_FM) break;                 \
    case NN_LINEAR | NN_POOL: WITH_DIM(NN_LINEAR | NN_POOL) break;             \
    case NN_LINEAR | NN_FM | NN_POOL:                                          \
      WITH_DIM(NN_LINEAR | NN_FM | NN_POOL) break;                             \
    case NN_POOL: WITH_DIM(NN_POOL) break;                                     \
    default: PASS(parts, dim);                                                 \
  }

static void FN(sparse_forward)(int parts, int32_t n, int32_t row_dim, int32_t dim,
                               int32_t fields, const int32_t *offsets,
                               const int32_t *occ, const int32_t *uniq,
                               const uint16_t *field, const float *values,
                               const float *matrix, float bias, float *z, float *s,
                               float *x0) {
#define PASS(PARTS, DIM)                                                       \
  FN(forward_rows)(PARTS, DIM, n, row_dim, fields, offsets, occ, uniq, field,  \
                   values, matrix, bias, z, s, x0)
  WITH_PARTS
#undef PASS
}

static void FN(sparse_backward)(int parts, int32_t n, int32_t row_dim, int32_t dim,
                                int32_t fields, int32_t uniques,
                                const int32_t *offsets, const int32_t *occ,
                                const int32_t *uniq, const uint16_t *field,
                                const float *values, const float *matrix,
                                const float *g, const float *s, const float *dx0,
                                float *rows) {
  memset(rows, 0, sizeof(float) * (size_t)uniques * row_dim);
#define PASS(PARTS, DIM)                                                       \
  FN(backward_rows)(PARTS, DIM, n, row_dim, fields, offsets, occ, uniq, field, \
                    values, matrix, g, s, dx0, rows)
  WITH_PARTS
#undef PASS
}

#undef WITH_PARTS
#undef WITH_DIM

/* exp(-t) for t >= 0, to about 1e-15; t above 700 counts as 700. A NaN stays
 * a NaN: a diverged model must show. */
static inline __attribute__((always_inline)) double FN(exp_neg)(double t) {
  t = t > 700.0 ? 700.0 : t;
  const double shifted = t * 0x1.71547652b82fep+0 + 0x1.8p52; /* t / ln 2 */
  const double whole = shifted - 0x1.8p52;
  const double r = (whole * 0x1.62e42fefa3800p-1 - t) + whole * 0x1.ef35793c76730p-45;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (1023 - (bits & 0x7ff)) << 52; /* 2^-whole */
  double power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

/* log(1+e) for e in [0,1], by the series of atanh(e/(2+e)). */
static inline __attribute__((always_inline)) double FN(log_one_plus)(double e) {
  const double s = e / (2.0 + e), q = s * s;
  double p = 1.0 / 25;
  p = p * q + 1.0 / 23;
  p = p * q + 1.0 / 21;
  p = p * q + 1.0 / 19;
  p = p * q + 1.0 / 17;
  p = p * q + 1.0 / 15;
  p = p * q + 1.0 / 13;
  p = p * q + 1.0 / 11;
  p = p * q + 1.0 / 9;
  p = p * q + 1.0 / 7;
  p = p * q + 1.0 / 5;
  p = p * q + 1.0 / 3;
  p = p * q + 1.0;
  return 2.0 * s * p;
}

static double FN(log_loss)(int32_t n, float scale, const float *restrict z,
                           const float *restrict labels, float *restrict g,
                           float *restrict preds) {
  double sum = 0;
  for (int32_t first = 0; first < n; first += 64) {
    double loss[64];
    const int32_t width = n - first < 64 ? n - first : 64;
    for (int32_t l = 0; l < width; l++) {
      const double t = z[first + l], y = labels[first + l];
      const double e = FN(exp_neg)(t < 0 ? -t : t);
      const double up = 1.0 / (1.0 + e), down = e / (1.0 + e);
      const double p = t < 0 ? down : up;
      loss[l] = FN(log_one_plus)(e) + ((t < 0 ? 0 : t) - y * t);
      preds[first + l] = (float)p;
      g[first + l] = (float)(p - y) * scale;
    }
    for (int32_t l = 0; l < width; l++) sum += loss[l];
  }
  return sum;
}

static void FN(sigmoid)(int32_t n, const float *restrict z, float *restrict preds) {
  for (int32_t i = 0; i < n; i++) {
    const double t = z[i], e = FN(exp_neg)(t < 0 ? -t : t);
    const double up = 1.0 / (1.0 + e), down = e / (1.0 + e);
    preds[i] = (float)(t < 0 ? down : up);
  }
}

static double FN(square_loss)(int32_t n, float scale, const float *restrict z,
                              const float *restrict labels, float *restrict g) {
  double sum = 0;
  for (int32_t i = 0; i < n; i++) {
    const double d = (double)z[i] - (double)labels[i];
    sum += d * d;
    g[i] = (float)(2.0 * d) * scale;
  }
  return sum;
}

static inline uint64_t FN(mix)(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* a = dropout(relu(a * scale + shift)); a null scale is 1. */
static void FN(activate)(int32_t n, int32_t units, float *restrict a,
                         const float *restrict scale, const float *restrict shift,
                         uint32_t drop, float inverse_keep, uint64_t key,
                         uint64_t first_row) {
  for (int32_t i = 0; i < n; i++) {
    float *restrict row = a + (size_t)i * units;
    if (scale)
      for (int32_t j = 0; j < units; j++) {
        const float v = row[j] * scale[j] + shift[j];
        row[j] = v < 0 ? 0 : v;
      }
    else
      for (int32_t j = 0; j < units; j++) {
        const float v = row[j] + shift[j];
        row[j] = v < 0 ? 0 : v;
      }
    if (drop == 0) continue;
    const uint64_t stream = FN(mix)(key + first_row + (uint64_t)i);
    const uint32_t k0 = (uint32_t)stream, k1 = (uint32_t)(stream >> 32);
    for (int32_t j = 0; j < units; j++) {
      uint32_t h = (uint32_t)j * 0x9e3779b1u ^ k0;
      h = (h ^ h >> 16) * 0x85ebca6bu;
      h = ((h ^ h >> 13) + k1) * 0xc2b2ae35u;
      h ^= h >> 16;
      /* both below 2^24: a signed compare is cheaper before AVX-512 */
      const float keep = (int32_t)(h >> 8) >= (int32_t)drop ? inverse_keep : 0.0f;
      row[j] *= keep;
    }
  }
}

static void FN(activate_back)(int32_t n, int32_t units, const float *restrict a,
                              float inverse_keep, float *restrict d,
                              float *restrict db) {
  for (int32_t j = 0; j < units; j++) db[j] = 0;
  for (int32_t i = 0; i < n; i++) {
    const float *restrict row = a + (size_t)i * units;
    float *restrict out = d + (size_t)i * units;
    for (int32_t j = 0; j < units; j++) {
      const float v = out[j] * inverse_keep;
      const float kept = row[j] > 0 ? v : 0;
      out[j] = kept;
      db[j] += kept;
    }
  }
}

static void FN(normalize)(int32_t n, int32_t units, float *restrict z,
                          float *restrict mean, float *restrict variance,
                          float *restrict inverse) {
  const float share = 1.0f / (float)n;
  for (int32_t j = 0; j < units; j++) mean[j] = variance[j] = 0;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < units; j++) mean[j] += z[(size_t)i * units + j];
  for (int32_t j = 0; j < units; j++) mean[j] *= share;
  for (int32_t i = 0; i < n; i++) {
    float *restrict row = z + (size_t)i * units;
    for (int32_t j = 0; j < units; j++) {
      const float d = row[j] - mean[j];
      row[j] = d;
      variance[j] += d * d;
    }
  }
  for (int32_t j = 0; j < units; j++) {
    variance[j] *= share;
    inverse[j] = 1.0f / sqrtf(variance[j] + 1e-5f);
  }
  for (int32_t i = 0; i < n; i++) {
    float *restrict row = z + (size_t)i * units;
    for (int32_t j = 0; j < units; j++) row[j] *= inverse[j];
  }
}

static void FN(normalize_back)(int32_t n, int32_t units,
                               const float *restrict normalized,
                               const float *restrict gamma,
                               const float *restrict inverse, float *restrict d,
                               float *restrict dgamma,
                               const float *restrict dbeta) {
  const float share = 1.0f / (float)n;
  for (int32_t j = 0; j < units; j++) dgamma[j] = 0;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < units; j++)
      dgamma[j] += d[(size_t)i * units + j] * normalized[(size_t)i * units + j];
  for (int32_t i = 0; i < n; i++) {
    const float *restrict x = normalized + (size_t)i * units;
    float *restrict row = d + (size_t)i * units;
    for (int32_t j = 0; j < units; j++)
      row[j] = gamma[j] * inverse[j] *
               (row[j] - (dbeta[j] + x[j] * dgamma[j]) * share);
  }
}

static void FN(output)(int32_t n, int32_t units, const float *restrict a,
                       const float *restrict w, float *restrict z) {
  for (int32_t i = 0; i < n; i++) {
    const float *restrict row = a + (size_t)i * units;
    float lane[LANES] = {0};
    int32_t j = 0;
    for (; j + LANES <= units; j += LANES)
      for (int l = 0; l < LANES; l++) lane[l] += row[j + l] * w[j + l];
    for (int l = 0; j + l < units; l++) lane[l] += row[j + l] * w[j + l];
    z[i] += FN(reduce)(lane);
  }
}

static void FN(output_back)(int32_t n, int32_t units, const float *restrict a,
                            const float *restrict w, const float *restrict g,
                            float *restrict d, float *restrict dw) {
  for (int32_t j = 0; j < units; j++) dw[j] = 0;
  for (int32_t i = 0; i < n; i++) {
    const float *restrict row = a + (size_t)i * units;
    float *restrict out = d + (size_t)i * units;
    const float gi = g[i];
    for (int32_t j = 0; j < units; j++) {
      out[j] = gi * w[j];
      dw[j] += gi * row[j];
    }
  }
}

static void FN(cross)(int32_t n, int32_t units, const float *restrict x0,
                      const float *restrict x, const float *restrict bias,
                      float *restrict u, float *restrict out) {
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < units; j++) {
      const size_t at = (size_t)i * units + j;
      u[at] += bias[j];
      out[at] = x0[at] * u[at] + x[at];
    }
}

static void FN(cross_back)(int32_t n, int32_t units, const float *restrict x0,
                           const float *restrict u, const float *restrict d,
                           float *restrict du, float *restrict dx0,
                           float *restrict db) {
  for (int32_t j = 0; j < units; j++) db[j] = 0;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < units; j++) {
      const size_t at = (size_t)i * units + j;
      const float t = d[at] * x0[at];
      du[at] = t;
      db[j] += t;
      dx0[at] += d[at] * u[at];
    }
}

#undef LANES
