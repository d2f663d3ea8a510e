#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define NAME(x) psrt_bare_##x##_avx512
#include "body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int psrt_bare_no_avx512;
#endif
