/* Holds our numbers and prototypes against NCCL's own header, whose folder .ci/nccl-header.sh
 * is given. Of CUDA's headers it wants names only. */
#include <stddef.h>

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#include <nccl.h>

#include "library.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)

SAME(sizeof(psrt_nccl_id_value), sizeof(ncclUniqueId));
SAME(PSRT_NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(offsetof(psrt_nccl_config, size), offsetof(ncclConfig_t, size));
SAME(offsetof(psrt_nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(psrt_nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(psrt_nccl_config, blocking), offsetof(ncclConfig_t, blocking));
#ifdef NCCL_API_MAGIC /* older ones have it in the initializer alone */
SAME(PSRT_NCCL_MAGIC, NCCL_API_MAGIC);
#endif
_Static_assert(sizeof(psrt_nccl_config) <= sizeof(ncclConfig_t), "the configuration has become shorter");
SAME(PSRT_NCCL_CONFIG_VERSION, NCCL_VERSION(2, 14, 0));
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));

/* Those of nccl.go, in its order. */
SAME(ncclSuccess, 0);
SAME(ncclUnhandledCudaError, 1);
SAME(ncclSystemError, 2);
SAME(ncclInternalError, 3);
SAME(ncclInvalidArgument, 4);
SAME(ncclInvalidUsage, 5);
SAME(ncclRemoteError, 6);
SAME(ncclInProgress, 7);
SAME(ncclInt8, 0);
SAME(ncclUint8, 1);
SAME(ncclInt32, 2);
SAME(ncclUint32, 3);
SAME(ncclInt64, 4);
SAME(ncclUint64, 5);
SAME(ncclFloat16, 6);
SAME(ncclFloat32, 7);
SAME(ncclFloat64, 8);
SAME(ncclBfloat16, 9);
SAME(ncclSum, 0);
SAME(ncclProd, 1);
SAME(ncclMax, 2);
SAME(ncclMin, 3);

/* Each call below is one that calls.c makes, with NCCL's types: other arguments, or another
 * order of them, do not compile. */
int psrt_nccl_header(ncclComm_t c, cudaStream_t s, ncclUniqueId id, void *p, const void *q)
{
	int version, n = 0;
	ncclResult_t state;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const char *text = ncclGetErrorString(ncclSuccess);
	text = ncclGetLastError(c);
	n += text != NULL;
	n += ncclGetVersion(&version) + ncclGetUniqueId(&id) + ncclCommInitRank(&c, 2, id, 1) + ncclCommInitRankConfig(&c, 2, id, 1, &config);
	n += ncclCommDestroy(c) + ncclCommAbort(c) + ncclCommFinalize(c) + ncclCommGetAsyncError(c, &state);
	n += ncclAllReduce(q, p, 1, ncclInt8, ncclSum, c, s) + ncclReduceScatter(q, p, 1, ncclInt8, ncclSum, c, s);
	n += ncclAllGather(q, p, 1, ncclInt8, c, s) + ncclBroadcast(q, p, 1, ncclInt8, 0, c, s);
	n += ncclGroupStart() + ncclSend(q, 1, ncclInt8, 0, c, s) + ncclRecv(p, 1, ncclInt8, 0, c, s) + ncclGroupEnd();
	n += ncclCommRegister(c, p, 1, &p) + ncclCommDeregister(c, p);
	return n;
}
