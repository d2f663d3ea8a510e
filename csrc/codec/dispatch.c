/* From a level number to the form of the codec. */
#include <string.h>
#include "codec.h"

#define DECLARE(form)                                                                                            \
	void psrt_half_encode_##form(uint16_t *, uint8_t *, const float *, int64_t, int64_t, int32_t);          \
	void psrt_half_decode_##form(float *, const uint16_t *, const uint8_t *, int64_t, int64_t, int32_t);    \
	void psrt_byte_encode_##form(int8_t *, float *, const float *, int64_t, int64_t, int32_t);              \
	void psrt_byte_decode_##form(float *, const int8_t *, const float *, int64_t, int64_t, int32_t);        \
	void psrt_peaks_##form(uint32_t *, const float *, int64_t, int64_t);

DECLARE(portable)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)

int32_t psrt_codec_level(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return 3;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? 2 : 1;
}

#define CALL(level, f, ...) ((level) >= 3 ? f##_avx512(__VA_ARGS__) : (level) == 2 ? f##_avx2(__VA_ARGS__) : f##_portable(__VA_ARGS__))
#else
int32_t psrt_codec_level(void) { return 1; }

#define CALL(level, f, ...) f##_portable(__VA_ARGS__)
#endif

void psrt_half_encode(int32_t level, uint16_t *codes, uint8_t *exps, const float *src, int64_t n, int64_t width, int32_t stream)
{
	CALL(level, psrt_half_encode, codes, exps, src, n, width, stream);
}

void psrt_half_decode(int32_t level, float *dst, const uint16_t *codes, const uint8_t *exps, int64_t n, int64_t width, int32_t stream)
{
	CALL(level, psrt_half_decode, dst, codes, exps, n, width, stream);
}

void psrt_byte_encode(int32_t level, int8_t *codes, float *scales, const float *src, int64_t n, int64_t width, int32_t stream)
{
	CALL(level, psrt_byte_encode, codes, scales, src, n, width, stream);
}

void psrt_byte_decode(int32_t level, float *dst, const int8_t *codes, const float *scales, int64_t n, int64_t width, int32_t stream)
{
	CALL(level, psrt_byte_decode, dst, codes, scales, n, width, stream);
}

void psrt_peaks(int32_t level, uint32_t *peaks, const float *src, int64_t n, int64_t width)
{
	CALL(level, psrt_peaks, peaks, src, n, width);
}

void psrt_memcpy(float *dst, const float *src, int64_t n) { memcpy(dst, src, (size_t)n * sizeof *dst); }
