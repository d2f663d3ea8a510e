/* From a level number to the form of the fold. */
#include "fold.h"

#define DECLARE(form) int32_t psrt_fold_##form(const psrt_fold_job *, const uintptr_t *, const uintptr_t *, const psrt_fold_merge *);

DECLARE(portable)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)

int32_t psrt_fold_level(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c"))
		return 1;
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? 3 : 2;
}
#else
int32_t psrt_fold_level(void)
{
	return 1;
}
#endif

int32_t psrt_fold(int32_t level, const psrt_fold_job *job, const uintptr_t *dsts, const uintptr_t *srcs, const psrt_fold_merge *steps)
{
#if defined(__x86_64__)
	if (level >= 3)
		return psrt_fold_avx512(job, dsts, srcs, steps);
	if (level == 2)
		return psrt_fold_avx2(job, dsts, srcs, steps);
#endif
	(void)level;
	return psrt_fold_portable(job, dsts, srcs, steps);
}
