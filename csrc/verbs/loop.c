#include "loop.h"
#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* reap polls what has completed; the count or -EIO where one failed. */
static int reap(struct psrt_cq *c)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(c->cq, 16, wc);
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			return -EIO;
	return n;
}

static int post(struct psrt_qp *q, const struct psrt_loop *l, uint32_t slot, int flags)
{
	uint64_t offset = (uint64_t)slot * l->bytes;
	struct ibv_sge g = { .addr = l->local + offset, .length = l->bytes, .lkey = l->lkey };
	struct ibv_send_wr w, *bad;
	memset(&w, 0, sizeof w);
	w.sg_list = &g;
	w.num_sge = 1;
	w.opcode = l->op == PSRT_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	w.send_flags = flags;
	w.wr.rdma.remote_addr = l->remote + offset;
	w.wr.rdma.rkey = l->rkey;
	return -abs(ibv_post_send(q->qp, &w, &bad));
}

int psrt_verbs_loop_ping(struct psrt_qp *q, struct psrt_cq *c, const struct psrt_loop *l, uint64_t *halves)
{
	volatile uint64_t *arrived = (volatile uint64_t *)(uintptr_t)(l->line + l->bytes - 8);
	volatile uint64_t *leaves = (volatile uint64_t *)(uintptr_t)(l->local + l->bytes - 8);
	int inlined = l->bytes <= l->inline_max ? IBV_SEND_INLINE : 0, flight = 0;
	uint64_t deadline = now() + l->timeout_nanos, last = now();
	for (uint32_t i = 0; i < l->iterations; i++) {
		for (int half = 0; half < 2; half++) {
			if ((half == 0) == (l->starts != 0)) {
				*leaves = l->first + i;
				int err = post(q, l, 0, inlined | ((i + 1) % l->every ? 0 : IBV_SEND_SIGNALED));
				if (err)
					return err;
				flight += (i + 1) % l->every == 0;
				while (flight > 1) { /* the ring has room for two rounds of unsignaled ones */
					int n = reap(c);
					if (n < 0 || now() > deadline)
						return n < 0 ? n : -ETIMEDOUT;
					flight -= n;
				}
				continue;
			}
			for (uint32_t spins = 1; *arrived != l->first + i; spins++)
				if (spins % 4096 == 0 && now() > deadline)
					return -ETIMEDOUT;
		}
		if (halves) {
			uint64_t t = now();
			halves[i] = (t - last) / 2;
			last = t;
		}
	}
	while (flight > 0) {
		int n = reap(c);
		if (n < 0 || now() > deadline)
			return n < 0 ? n : -ETIMEDOUT;
		flight -= n;
	}
	return 0;
}

int psrt_verbs_loop_stream(struct psrt_qp *q, struct psrt_cq *c, const struct psrt_loop *l, uint64_t *nanos)
{
	uint64_t start = now(), deadline = start + l->timeout_nanos;
	uint32_t posted = 0, done = 0;
	while (done < l->iterations) {
		while (posted < l->iterations && posted - done < l->slots) {
			int tell = (posted + 1) % l->every == 0 || posted + 1 == l->iterations;
			int err = post(q, l, posted % l->slots, tell ? IBV_SEND_SIGNALED : 0);
			if (err)
				return err;
			posted++;
		}
		int n = reap(c);
		if (n < 0)
			return n;
		for (; n > 0; n--)
			done = l->iterations - done < l->every ? l->iterations : done + l->every;
		if (now() > deadline)
			return -ETIMEDOUT;
	}
	*nanos = now() - start;
	return 0;
}
