#include "bare.h"
#include "place.h"

void psrt_bare_find(const psrt_bare_table *t, const uint64_t *keys, int64_t n, uint32_t *ids)
{
	for (int64_t i = -SLOTS_AHEAD; i < n; i++) {
		if (i + SLOTS_AHEAD < n)
			__builtin_prefetch(slot_of(t, keys[i + SLOTS_AHEAD]));
		if (i >= 0)
			ids[i] = resolve(t, keys[i]);
	}
}

#define DECLARE(form)                                                                                                            \
	void psrt_bare_pull_##form(const psrt_bare_table *, const uint64_t *, int64_t, int64_t, float *);                        \
	void psrt_bare_update_##form(const psrt_bare_table *, const uint32_t *, int64_t, int64_t, const float *, float);         \
	void psrt_bare_insert_##form(const psrt_bare_table *, const uint64_t *, int64_t, uint32_t, const float *);

DECLARE(portable)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)

int32_t psrt_bare_level(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		return 3;
	return __builtin_cpu_supports("avx2") ? 2 : 1;
}

#define CALL(level, f, ...) ((level) >= 3 ? f##_avx512(__VA_ARGS__) : (level) == 2 ? f##_avx2(__VA_ARGS__) : f##_portable(__VA_ARGS__))
#else
int32_t psrt_bare_level(void)
{
	return 1;
}

#define CALL(level, f, ...) f##_portable(__VA_ARGS__)
#endif

void psrt_bare_pull(int32_t level, const psrt_bare_table *t, const uint64_t *keys, int64_t n, int64_t dim, float *dst)
{
	CALL(level, psrt_bare_pull, t, keys, n, dim, dst);
}

void psrt_bare_update(int32_t level, const psrt_bare_table *t, const uint32_t *ids, int64_t n, int64_t dim, const float *grads, float rate)
{
	CALL(level, psrt_bare_update, t, ids, n, dim, grads, rate);
}

void psrt_bare_insert(int32_t level, const psrt_bare_table *t, const uint64_t *keys, int64_t n, uint32_t next, const float *values)
{
	CALL(level, psrt_bare_insert, t, keys, n, next, values);
}
