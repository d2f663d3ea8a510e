#ifndef PSRT_CODEC_H
#define PSRT_CODEC_H

#include <stdint.h>

/* Floats are taken in groups of width, the last may be shorter. n counts floats. */

/* A group's exponent byte of half_encode: that of its greatest magnitude, not below
 * LEAST; PLAIN for a group that is not finite, whose halves are not scaled. */
enum { PSRT_EXP_LEAST = 15, PSRT_EXP_PLAIN = 255, PSRT_MAX_WIDTH = 4096 };

/* The best level of this CPU: 1 portable, 2 AVX2 and F16C, 3 AVX-512. */
int32_t psrt_codec_level(void);

void psrt_half_encode(int32_t level, uint16_t *codes, uint8_t *exps, const float *src, int64_t n, int64_t width, int32_t stream);
void psrt_half_decode(int32_t level, float *dst, const uint16_t *codes, const uint8_t *exps, int64_t n, int64_t width, int32_t stream);
void psrt_byte_encode(int32_t level, int8_t *codes, float *scales, const float *src, int64_t n, int64_t width, int32_t stream);
void psrt_byte_decode(int32_t level, float *dst, const int8_t *codes, const float *scales, int64_t n, int64_t width, int32_t stream);
/* The greatest magnitude of each group, as the bits of a float. */
void psrt_peaks(int32_t level, uint32_t *peaks, const float *src, int64_t n, int64_t width);

/* The C library's, of n floats. */
void psrt_memcpy(float *dst, const float *src, int64_t n);

#endif
