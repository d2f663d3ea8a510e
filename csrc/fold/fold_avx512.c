/* The fold for AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")
#include <immintrin.h>
#define NAME(x) psrt_##x##_avx512
#define WIDTH 16
typedef __m512 wide;
#define widen(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define narrow(p, v) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define WIDE_SUM _mm512_add_ps(a, b)
#define WIDE_PROD _mm512_mul_ps(a, b)
#define WIDE_MIN _mm512_min_ps(b, a) /* the second where they are unordered */
#define WIDE_MAX _mm512_max_ps(b, a)
#define STREAM(to, from) _mm512_stream_si512((__m512i *)(to), _mm512_loadu_si512(from))
#define STREAM_END() _mm_sfence()
#include "body.h"
#else
typedef int psrt_no_avx512;
#endif
