/* The kernels for AVX2. The target has no FMA in body.h's loops because
 * contraction is off, not because the CPU lacks it. */
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>
#define NAME(x) psrt_##x##_avx2
#define REGISTER 32
#define STREAM(to, v) _mm256_stream_ps(to, (__m256)(v))
#define STREAM_END() _mm_sfence()
#include "body.h"
#else
typedef int psrt_no_avx2;
#endif
