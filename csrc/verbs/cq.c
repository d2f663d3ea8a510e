#define _GNU_SOURCE /* ppoll */
#include "objects.h"
#include "usdt_points.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int psrt_verbs_cq_create(struct psrt_ctx *c, int cqe, struct psrt_cq **out)
{
	int err, fd;
	struct psrt_cq *q = calloc(1, sizeof *q);
	if (!q)
		return -ENOMEM;
	errno = 0;
	q->channel = psrt_ibv.create_comp_channel(c->ctx);
	if (!q->channel) {
		err = errno ? -errno : -ENOMEM;
		goto fail_alloc;
	}
	fd = q->channel->fd;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		err = -errno;
		goto fail_channel;
	}
	errno = 0;
	q->cq = psrt_ibv.create_cq(c->ctx, cqe, NULL, q->channel, 0);
	if (!q->cq) {
		err = errno ? -errno : -ENOMEM;
		goto fail_channel;
	}
	*out = q;
	return 0;
fail_channel:
	psrt_ibv.destroy_comp_channel(q->channel);
fail_alloc:
	free(q);
	return err;
}

int psrt_verbs_cq_destroy(struct psrt_cq *q)
{
	/* destroy_cq waits until every event got is acknowledged. */
	if (q->unacked)
		psrt_ibv.ack_cq_events(q->cq, q->unacked);
	int a = psrt_ibv.destroy_cq(q->cq);
	int b = psrt_ibv.destroy_comp_channel(q->channel);
	free(q);
	return a ? -abs(a) : -abs(b);
}

int psrt_verbs_cq_poll(struct psrt_cq *q, struct psrt_done *out, int n)
{
	struct ibv_wc wc[32];
	int total = 0;
	while (total < n) {
		int want = n - total < 32 ? n - total : 32;
		int got = ibv_poll_cq(q->cq, want, wc);
		if (got < 0)
			return total ? total : -EIO;
		psrt_usdt_polled(q->cq, wc, got);
		for (int i = 0; i < got; i++) {
			struct psrt_done *d = &out[total + i];
			d->id = wc[i].wr_id;
			d->status = wc[i].status;
			d->vendor_err = wc[i].vendor_err;
			d->bytes = wc[i].byte_len;
			d->with_imm = wc[i].status == IBV_WC_SUCCESS && (wc[i].wc_flags & IBV_WC_WITH_IMM);
			d->imm = d->with_imm ? ntohl(wc[i].imm_data) : 0;
			d->qpn = wc[i].qp_num;
		}
		total += got;
		if (got < want)
			break;
	}
	return total;
}

int psrt_verbs_cq_arm(struct psrt_cq *q) { return -abs(ibv_req_notify_cq(q->cq, 0)); }

int psrt_verbs_cq_wait(struct psrt_cq *q, int wake_fd, int64_t timeout_nanos)
{
	struct pollfd p[2] = {
		{ .fd = q->channel->fd, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
	};
	struct timespec t = { timeout_nanos / 1000000000, timeout_nanos % 1000000000 };
	if (ppoll(p, 2, &t, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[1].revents & POLLIN) {
		uint64_t count;
		if (read(wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
			return -errno;
	}
	if (p[0].revents & POLLIN) {
		struct ibv_cq *cq;
		void *context;
		if (!psrt_ibv.get_cq_event(q->channel, &cq, &context)) {
			/* Acknowledging takes a lock: in batches. */
			if (++q->unacked == 64) {
				psrt_ibv.ack_cq_events(q->cq, q->unacked);
				q->unacked = 0;
			}
		}
	} else if (p[0].revents & (POLLERR | POLLHUP | POLLNVAL)) {
		return -ENODEV; /* the device was removed: it would be ready for ever */
	}
	return 0;
}
