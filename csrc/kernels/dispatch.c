/* From a level number to the form of the kernel. */
#include "kernels.h"

#define DECLARE(form)                                                                                                                                                    \
	void psrt_gather_##form(float *, int64_t, int64_t, const uintptr_t *, const psrt_rows *, const uint32_t *, int64_t);                                             \
	int64_t psrt_update_##form(const psrt_rule *, int64_t, const uintptr_t *, const psrt_rows *, const uint32_t *, int64_t, const float *);                          \
	int64_t psrt_update_into_##form(const psrt_rule *, int64_t, float *, const float *, float *, const float *);                                                     \
	int64_t psrt_sum_##form(float *, int64_t, const psrt_source *, int64_t);                                                                                            \
	void psrt_gather_parts_##form(const psrt_parts *, float *, int64_t, const uintptr_t *, const psrt_rows *, const uint32_t *, int64_t);                                \
	int64_t psrt_update_parts_##form(const psrt_parts *, const uintptr_t *, const psrt_rows *, const uint32_t *, int64_t, const float *);                              \
	int64_t psrt_lagging_##form(int64_t, uint32_t, const uintptr_t *, const psrt_rows *, const uint32_t *, int64_t, uint32_t *);                                         \
	float psrt_scan_##form(const float *, int64_t);                                                                                                                  \
	int64_t psrt_treesum_rows_##form(float *, int64_t, int64_t, const psrt_source *, int64_t, const psrt_merge *, int64_t);                                          \
	int64_t psrt_treesum_##form(float *, int64_t, const psrt_source *, int64_t, const psrt_merge *, int64_t);

DECLARE(portable)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)

int32_t psrt_kernel_level(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return 3;
	return __builtin_cpu_supports("avx2") ? 2 : 1;
}

#define CALL(level, f, ...) ((level) >= 3 ? f##_avx512(__VA_ARGS__) : (level) == 2 ? f##_avx2(__VA_ARGS__) : f##_portable(__VA_ARGS__))
#else
int32_t psrt_kernel_level(void)
{
	return 1;
}

#define CALL(level, f, ...) f##_portable(__VA_ARGS__)
#endif

void psrt_gather(int32_t level, float *dst, int64_t step, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n)
{
	CALL(level, psrt_gather, dst, step, dim, bases, rows, ids, n);
}

int64_t psrt_update(int32_t level, const psrt_rule *rule, int64_t dim, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *grads)
{
	return CALL(level, psrt_update, rule, dim, bases, rows, ids, n, grads);
}

int64_t psrt_update_into(int32_t level, const psrt_rule *rule, int64_t n, float *o, const float *w, float *s, const float *g)
{
	return CALL(level, psrt_update_into, rule, n, o, w, s, g);
}

void psrt_gather_parts(int32_t level, const psrt_parts *parts, float *dst, int64_t step, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n)
{
	CALL(level, psrt_gather_parts, parts, dst, step, bases, rows, ids, n);
}

int64_t psrt_update_parts(int32_t level, const psrt_parts *parts, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *push)
{
	return CALL(level, psrt_update_parts, parts, bases, rows, ids, n, push);
}

int64_t psrt_lagging(int32_t level, int64_t life, uint32_t seq, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, uint32_t *out)
{
	return CALL(level, psrt_lagging, life, seq, bases, rows, ids, n, out);
}

int64_t psrt_sum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n)
{
	return CALL(level, psrt_sum, dst, len, srcs, n);
}

int64_t psrt_treesum_rows(int32_t level, float *dst, int64_t dim, int64_t rows, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	return CALL(level, psrt_treesum_rows, dst, dim, rows, srcs, n, merges, nmerges);
}

int64_t psrt_treesum(int32_t level, float *dst, int64_t len, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	return CALL(level, psrt_treesum, dst, len, srcs, n, merges, nmerges);
}

float psrt_scan(int32_t level, const float *src, int64_t len)
{
	return CALL(level, psrt_scan, src, len);
}
