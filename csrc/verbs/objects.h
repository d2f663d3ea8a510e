#ifndef PSRT_VERBS_OBJECTS_H
#define PSRT_VERBS_OBJECTS_H

#include "load.h"
#include "verbs.h"

struct psrt_ctx {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int atomics; /* the device has them */
};

struct psrt_cq {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned int unacked; /* events got and not yet acknowledged; the waiter's */
};

struct psrt_srq {
	struct ibv_srq *srq;
};

struct psrt_qp {
	struct ibv_qp *qp;
	int atomics; /* as the context's */
};

#endif
