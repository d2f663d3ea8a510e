#include "usdt_points.h"

#include <stdlib.h>

PSRT_USDT_SEMAPHORE(completions);
PSRT_USDT_SEMAPHORE(requests);

#define APART __attribute__((noinline, noclone, cold))

APART void psrt_usdt_tell_completions(struct ibv_cq *q, const struct ibv_wc *wc, int n)
{
	uint64_t bytes = 0, errors = 0;
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			errors++;
		else if (wc[i].opcode & IBV_WC_RECV)
			bytes += wc[i].byte_len;
	}
	PSRT_USDT(completions, q->context->device->name, q, n, bytes, errors, wc, 0, 0);
}

APART void psrt_usdt_tell_requests(struct ibv_qp *q, const struct ibv_send_wr *first, const struct ibv_send_wr *bad, int err)
{
	uint64_t n = 0, sent = 0, asked = 0, reads = 0;
	for (const struct ibv_send_wr *w = first; w && w != bad; w = w->next) {
		uint64_t bytes = 0;
		for (int i = 0; i < w->num_sge; i++)
			bytes += w->sg_list[i].length;
		n++;
		if (w->opcode == IBV_WR_RDMA_READ) {
			reads++;
			asked += bytes;
		} else {
			sent += bytes;
		}
	}
	PSRT_USDT(requests, q->context->device->name, q->send_cq, n, sent, abs(err), q->qp_num, asked, reads);
}
