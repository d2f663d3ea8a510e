#include "objects.h"
#include "usdt_points.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH = 32, /* requests per list: what fits a modest stack */
	/* A doorbell rings when so many bytes are listed: beyond it the device's
	 * work counts, not the doorbell. Soft-RoCE moves the bytes in the doorbell's
	 * system call, on a warm core; a list of larger messages it leaves to a
	 * thread of the kernel, which is a fifth slower. */
	LIST_BYTES = 32 << 10,
};

int psrt_verbs_qp_create(struct psrt_ctx *c, struct psrt_cq *q, struct psrt_srq *pool, int send_wr, int recv_wr, int inline_bytes,
	struct psrt_qp **out, uint32_t *qpn, uint32_t *inline_got)
{
	struct ibv_qp_init_attr a;
	struct psrt_qp *p = calloc(1, sizeof *p);
	int err;
	if (!p)
		return -ENOMEM;
	memset(&a, 0, sizeof a);
	a.send_cq = a.recv_cq = q->cq;
	a.qp_type = IBV_QPT_RC;
	a.cap.max_send_wr = send_wr;
	a.cap.max_send_sge = 1;
	a.srq = pool ? pool->srq : NULL;
	if (!pool) {
		a.cap.max_recv_wr = recv_wr;
		a.cap.max_recv_sge = 1;
	}
	a.cap.max_inline_data = inline_bytes;
	errno = 0;
	p->qp = psrt_ibv.create_qp(c->pd, &a);
	if (!p->qp) {
		err = errno ? -errno : -ENOMEM;
		free(p);
		return err;
	}
	p->atomics = c->atomics;
	*out = p;
	*qpn = p->qp->qp_num;
	*inline_got = a.cap.max_inline_data;
	return 0;
}

int psrt_verbs_qp_destroy(struct psrt_qp *q)
{
	int err = psrt_ibv.destroy_qp(q->qp);
	free(q);
	return -abs(err);
}

static int to_state(struct psrt_qp *q, enum ibv_qp_state s)
{
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = s;
	return -abs(psrt_ibv.modify_qp(q->qp, &a, IBV_QP_STATE));
}

int psrt_verbs_qp_reset(struct psrt_qp *q) { return to_state(q, IBV_QPS_RESET); }
int psrt_verbs_qp_error(struct psrt_qp *q) { return to_state(q, IBV_QPS_ERR); }

int psrt_verbs_qp_init(struct psrt_qp *q, int port)
{
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = port;
	/* What a peer may do is decided per region. mlx5 refuses atomics where the
	 * function has none, as on some virtual machines. */
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | (q->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
	return -abs(psrt_ibv.modify_qp(q->qp, &a,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

int psrt_verbs_qp_rtr(struct psrt_qp *q, const struct psrt_path *p)
{
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = p->mtu;
	a.dest_qp_num = p->dest_qpn;
	a.rq_psn = p->dest_psn;
	a.max_dest_rd_atomic = p->dest_rd_atomic;
	a.min_rnr_timer = p->min_rnr_timer;
	a.ah_attr.port_num = p->port;
	a.ah_attr.dlid = p->dlid;
	a.ah_attr.is_global = p->global;
	if (p->global) {
		memcpy(a.ah_attr.grh.dgid.raw, p->dgid, 16);
		a.ah_attr.grh.sgid_index = p->gid_index;
		a.ah_attr.grh.hop_limit = p->hop_limit;
		a.ah_attr.grh.traffic_class = p->traffic_class;
	}
	return -abs(psrt_ibv.modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

int psrt_verbs_qp_rts(struct psrt_qp *q, const struct psrt_path *p)
{
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = p->psn;
	a.timeout = p->timeout;
	a.retry_cnt = p->retry;
	a.rnr_retry = p->rnr_retry;
	a.max_rd_atomic = p->rd_atomic;
	return -abs(psrt_ibv.modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static const enum ibv_wr_opcode opcodes[] = {
	[PSRT_SEND] = IBV_WR_SEND,
	[PSRT_WRITE] = IBV_WR_RDMA_WRITE,
	[PSRT_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[PSRT_READ] = IBV_WR_RDMA_READ,
	[PSRT_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[PSRT_COMPARE_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

static void fill_send(struct ibv_send_wr *w, struct ibv_sge *g, const struct psrt_send *s, const uint8_t *inline_bytes)
{
	memset(w, 0, sizeof *w);
	g->addr = s->flags & PSRT_OFFSET ? (uintptr_t)inline_bytes + s->addr : s->addr;
	g->length = s->length;
	g->lkey = s->lkey;
	w->wr_id = s->id;
	w->sg_list = g;
	w->num_sge = s->length > 0;
	w->opcode = opcodes[s->op];
	w->send_flags = (s->flags & PSRT_SIGNALED ? IBV_SEND_SIGNALED : 0) | (s->flags & PSRT_INLINE ? IBV_SEND_INLINE : 0);
	w->imm_data = htonl(s->imm);
	if (s->op >= PSRT_FETCH_ADD) {
		w->wr.atomic.remote_addr = s->remote_addr;
		w->wr.atomic.rkey = s->rkey;
		w->wr.atomic.compare_add = s->operand;
		w->wr.atomic.swap = s->swap;
	} else {
		w->wr.rdma.remote_addr = s->remote_addr;
		w->wr.rdma.rkey = s->rkey;
	}
}

int psrt_verbs_post_send(struct psrt_qp *q, const struct psrt_send *s, int n, const uint8_t *inline_bytes, int *posted)
{
	struct ibv_send_wr w[BATCH], *bad;
	struct ibv_sge g[BATCH];
	*posted = 0;
	while (*posted < n) {
		uint64_t bytes = 0;
		int k = 0;
		do {
			fill_send(&w[k], &g[k], &s[*posted + k], inline_bytes);
			w[k].next = &w[k + 1];
			bytes += s[*posted + k].length;
			k++;
		} while (k < BATCH && k < n - *posted && bytes < LIST_BYTES);
		w[k - 1].next = NULL;
		bad = NULL; /* soft-RoCE leaves it where the doorbell fails: all are listed then */
		int err = ibv_post_send(q->qp, w, &bad);
		psrt_usdt_posted(q->qp, w, bad, err);
		if (err) {
			*posted += bad ? (int)(bad - w) : k;
			return -abs(err);
		}
		*posted += k;
	}
	return 0;
}

int psrt_verbs_post_recv(struct psrt_qp *q, const struct psrt_recv *r, int n, int *posted)
{
	struct ibv_recv_wr w[BATCH], *bad;
	struct ibv_sge g[BATCH];
	*posted = 0;
	while (*posted < n) {
		int k = n - *posted < BATCH ? n - *posted : BATCH;
		for (int i = 0; i < k; i++) {
			const struct psrt_recv *from = &r[*posted + i];
			g[i] = (struct ibv_sge){ .addr = from->addr, .length = from->length, .lkey = from->lkey };
			w[i] = (struct ibv_recv_wr){ .wr_id = from->id, .sg_list = &g[i], .num_sge = from->length > 0 };
			w[i].next = i + 1 < k ? &w[i + 1] : NULL;
		}
		bad = NULL;
		int err = ibv_post_recv(q->qp, w, &bad);
		if (err) {
			*posted += bad ? (int)(bad - w) : k;
			return -abs(err);
		}
		*posted += k;
	}
	return 0;
}
