/* The fold for any CPU. */
#define NAME(x) psrt_##x##_portable
#include "body.h"
