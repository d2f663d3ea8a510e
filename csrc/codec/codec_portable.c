/* The codecs for any CPU: vectors of one float, rounding by hand. */
#include <stdint.h>
#include <string.h>
#define NAME(x) psrt_##x##_portable
#define LANES 1

typedef float fvec;
typedef uint32_t ivec;

static inline uint32_t bits_of(float f)
{
	uint32_t b;
	memcpy(&b, &f, 4);
	return b;
}
static inline float of_bits(uint32_t b)
{
	float f;
	memcpy(&f, &b, 4);
	return f;
}
static inline fvec load(const float *p) { return *p; }
static inline fvec load_part(const float *p, int64_t n) { return *p; }
static inline void store(float *p, fvec v) { *p = v; }
static inline void store_part(float *p, fvec v, int64_t n) { *p = v; }
static inline fvec fill(float f) { return f; }
static inline fvec mul(fvec a, fvec b) { return a * b; }
static inline ivec izero(void) { return 0; }
static inline ivec imax(ivec a, ivec b) { return a > b ? a : b; }
static inline ivec magnitude(fvec v) { return bits_of(v) & 0x7fffffffu; }
static inline uint32_t imax_of(ivec v) { return v; }

/* Round to nearest, to even where two are as near. */
static inline uint16_t half_of(float f)
{
	uint32_t b = bits_of(f), sign = b >> 16 & 0x8000, m = b & 0x7fffffff;
	if (m > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (m >> 13 & 0x1ff)); /* quiet, as the CPU makes it */
	if (m >= 0x47800000)
		return (uint16_t)(sign | 0x7c00);
	if (m < 0x38800000) /* no normal half: added to 1/2, what is lost is rounded */
		return (uint16_t)(sign | (bits_of(of_bits(m) + 0.5f) - 0x3f000000));
	m += 0xc8000fff + (m >> 13 & 1);
	return (uint16_t)(sign | m >> 13);
}
static inline float of_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = h & 0x7fff;
	if (m >= 0x7c00)
		return of_bits(sign | 0x7f800000 | (m & 0x3ff ? 0x400000 : 0) | (m & 0x3ff) << 13);
	if (m < 0x400)
		return of_bits(sign | bits_of((float)m * 0x1p-24f));
	return of_bits(sign | ((m << 13) + 0x38000000));
}
static inline void store_half(uint16_t *p, fvec v) { *p = half_of(v); }
static inline void store_half_part(uint16_t *p, fvec v, int64_t n) { *p = half_of(v); }
static inline fvec load_half(const uint16_t *p) { return of_half(*p); }
static inline fvec load_half_part(const uint16_t *p, int64_t n) { return of_half(*p); }

/* v is within 128 of zero: added to 3 * 2^22 it is rounded to an integer, to even. */
static inline void store_byte(int8_t *p, fvec v)
{
	float r = (v == v ? v : 0) + 12582912.0f;
	int32_t i = (int32_t)(r - 12582912.0f);
	*p = (int8_t)(i > 127 ? 127 : i < -128 ? -128 : i);
}
static inline void store_byte_part(int8_t *p, fvec v, int64_t n) { store_byte(p, v); }
static inline fvec load_byte(const int8_t *p) { return (float)*p; }
static inline fvec load_byte_part(const int8_t *p, int64_t n) { return (float)*p; }
static inline void stream_line(char *to, const char *from) { memcpy(to, from, 64); }
static inline void stream_floats(float *p, fvec v) { store(p, v); }
static inline void stream_halves(uint16_t *p, fvec a, fvec b)
{
	store_half(p, a);
	store_half(p + 1, b);
}
static inline void stream_bytes(int8_t *p, fvec a, fvec b, fvec c, fvec d)
{
	store_byte(p, a);
	store_byte(p + 1, b);
	store_byte(p + 2, c);
	store_byte(p + 3, d);
}
static inline void stream_end(void) {}
static inline int peaks_rows(uint32_t *peaks, const float *src, int64_t n, int64_t width) { return 0; }

#include "body.h"
