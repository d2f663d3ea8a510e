#define NAME(x) psrt_bare_##x##_portable
#include "body.h"
