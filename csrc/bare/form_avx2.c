#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define NAME(x) psrt_bare_##x##_avx2
#include "body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int psrt_bare_no_avx2;
#endif
