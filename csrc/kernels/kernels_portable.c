/* The kernels for any CPU. */
#define NAME(x) psrt_##x##_portable
#define REGISTER 16
#define STREAM(to, v) memcpy(to, &(v), sizeof(v))
#define STREAM_END()
#include "body.h"
