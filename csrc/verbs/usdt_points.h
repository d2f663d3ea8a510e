#ifndef PSRT_VERBS_USDT_POINTS_H
#define PSRT_VERBS_USDT_POINTS_H

#include "usdt.h"

#include <infiniband/verbs.h>

/* The points of this shim, once a batch. Where nobody looks, each costs a load
 * and a branch.
 *
 *   psrt:completions  device's name, cq, count, bytes received, errors, struct ibv_wc[count], 0, 0
 *   psrt:requests     device's name, cq, count, bytes sent, errno, queue pair's number, bytes asked for by reads,
 *                     how many of count are reads */
extern PSRT_USDT_SEMAPHORE(completions);
extern PSRT_USDT_SEMAPHORE(requests);

void psrt_usdt_tell_completions(struct ibv_cq *q, const struct ibv_wc *wc, int n);
void psrt_usdt_tell_requests(struct ibv_qp *q, const struct ibv_send_wr *first, const struct ibv_send_wr *bad, int err);

/* After a poll that got n. */
static inline void psrt_usdt_polled(struct ibv_cq *q, const struct ibv_wc *wc, int n)
{
	if (__builtin_expect(psrt_usdt_completions, 0) && n > 0)
		psrt_usdt_tell_completions(q, wc, n);
}

/* After a doorbell for a list; bad: the first that was not taken, if err. */
static inline void psrt_usdt_posted(struct ibv_qp *q, const struct ibv_send_wr *first, const struct ibv_send_wr *bad, int err)
{
	if (__builtin_expect(psrt_usdt_requests, 0))
		psrt_usdt_tell_requests(q, first, bad, err);
}

#endif
