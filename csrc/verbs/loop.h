#ifndef PSRT_VERBS_LOOP_H
#define PSRT_VERBS_LOOP_H

#include "verbs.h"

/* What a C program without any runtime reaches on a connected queue pair: the
 * bare loops that a benchmark holds everything else against. Nothing else may
 * use queue pair and completion queue meanwhile. */
struct psrt_loop {
	uint64_t local, remote; /* addresses of the first byte to move */
	uint64_t line;          /* where the peer's ping arrives; last 8 of its bytes are its number */
	uint64_t first;         /* number of the first ping, not 0; the peer's has the same */
	uint64_t timeout_nanos;
	uint32_t lkey, rkey, bytes, slots, iterations, every;
	uint32_t op, starts, inline_max;
};

/* Ping-pong of writes. halves gets half of each round trip in nanoseconds on
 * the side that starts, and may be NULL on the other. */
int psrt_verbs_loop_ping(struct psrt_qp *q, struct psrt_cq *c, const struct psrt_loop *l, uint64_t *halves);
/* iterations writes or reads, at most slots in flight, each every-th signaled.
 * nanos gets the time until the last has completed. */
int psrt_verbs_loop_stream(struct psrt_qp *q, struct psrt_cq *c, const struct psrt_loop *l, uint64_t *nanos);

#endif
