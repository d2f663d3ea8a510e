#include "objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int psrt_verbs_devices(char *names, int n)
{
	int count = 0, used = 0, found = 0;
	struct ibv_device **list = psrt_ibv.get_device_list(&count);
	if (!list)
		return errno == ENOSYS ? 0 : -errno; /* ENOSYS: no kernel support at all */
	for (int i = 0; i < count; i++) {
		const char *name = psrt_ibv.get_device_name(list[i]);
		int len = (int)strlen(name) + 1;
		if (used + len > n)
			break;
		memcpy(names + used, name, len);
		used += len;
		found++;
	}
	psrt_ibv.free_device_list(list);
	return found;
}

int psrt_verbs_open(const char *name, struct psrt_ctx **out)
{
	int count = 0, err = -ENODEV;
	struct psrt_ctx *c = calloc(1, sizeof *c);
	struct ibv_device **list;
	if (!c)
		return -ENOMEM;
	list = psrt_ibv.get_device_list(&count);
	if (!list) {
		err = -errno;
		goto fail_alloc;
	}
	for (int i = 0; i < count && !c->ctx; i++) {
		if (strcmp(psrt_ibv.get_device_name(list[i]), name))
			continue;
		errno = 0;
		c->ctx = psrt_ibv.open_device(list[i]);
		if (!c->ctx)
			err = errno ? -errno : -EIO;
	}
	psrt_ibv.free_device_list(list);
	if (!c->ctx)
		goto fail_alloc;
	/* Async events are collected without waiting. */
	if (fcntl(c->ctx->async_fd, F_SETFL, fcntl(c->ctx->async_fd, F_GETFL) | O_NONBLOCK) < 0) {
		err = -errno;
		goto fail_open;
	}
	struct ibv_device_attr a;
	memset(&a, 0, sizeof a);
	err = -abs(psrt_ibv.query_device(c->ctx, &a));
	if (err)
		goto fail_open;
	c->atomics = a.atomic_cap != IBV_ATOMIC_NONE;
	errno = 0;
	c->pd = psrt_ibv.alloc_pd(c->ctx);
	if (!c->pd) {
		err = errno ? -errno : -ENOMEM;
		goto fail_open;
	}
	*out = c;
	return 0;
fail_open:
	psrt_ibv.close_device(c->ctx);
fail_alloc:
	free(c);
	return err;
}

int psrt_verbs_close(struct psrt_ctx *c)
{
	int a = psrt_ibv.dealloc_pd(c->pd);
	int b = psrt_ibv.close_device(c->ctx);
	free(c);
	return a ? -abs(a) : -abs(b);
}

int psrt_verbs_attr(struct psrt_ctx *c, struct psrt_device_attr *out)
{
	struct ibv_device_attr a;
	memset(&a, 0, sizeof a);
	int err = psrt_ibv.query_device(c->ctx, &a);
	if (err)
		return -abs(err);
	out->max_mr_size = a.max_mr_size;
	out->max_qp_wr = a.max_qp_wr;
	out->max_cqe = a.max_cqe;
	out->max_qp_rd_atom = a.max_qp_rd_atom;
	out->max_qp_init_rd_atom = a.max_qp_init_rd_atom;
	out->atomics = a.atomic_cap != IBV_ATOMIC_NONE;
	out->ports = a.phys_port_cnt;
	out->max_srq_wr = a.max_srq > 0 ? a.max_srq_wr : 0;
	return 0;
}

int psrt_verbs_port(struct psrt_ctx *c, int port, struct psrt_port_attr *out)
{
	struct ibv_port_attr a;
	memset(&a, 0, sizeof a);
	int err = psrt_ibv.query_port(c->ctx, (uint8_t)port, &a);
	if (err)
		return -abs(err);
	out->state = a.state;
	out->active_mtu = a.active_mtu;
	out->link_layer = a.link_layer;
	out->lid = a.lid;
	out->gids = a.gid_tbl_len;
	out->max_msg = a.max_msg_sz;
	return 0;
}

int psrt_verbs_gid(struct psrt_ctx *c, int port, int index, struct psrt_gid *out)
{
	struct ibv_gid_entry e;
	memset(&e, 0, sizeof e);
	int err = psrt_ibv.query_gid_ex(c->ctx, port, index, &e, 0, sizeof e);
	if (err)
		return -abs(err);
	memcpy(out->raw, e.gid.raw, 16);
	out->type = e.gid_type;
	out->ifindex = e.ndev_ifindex;
	out->index = e.gid_index;
	return 0;
}

/* One system call for a table of, with soft-RoCE, 1024 entries of which two are
 * set. The library refuses where more are set than fit. */
int psrt_verbs_gids(struct psrt_ctx *c, int port, struct psrt_gid *out, int n)
{
	struct ibv_gid_entry all[PSRT_GIDS];
	int found = 0;
	memset(all, 0, sizeof all);
	ssize_t got = psrt_ibv.query_gid_table(c->ctx, all, PSRT_GIDS, 0, sizeof *all);
	if (got < 0)
		return (int)got;
	for (ssize_t i = 0; i < got && found < n; i++) {
		if (all[i].port_num != (uint32_t)port)
			continue;
		memcpy(out[found].raw, all[i].gid.raw, 16);
		out[found].type = all[i].gid_type;
		out[found].ifindex = all[i].ndev_ifindex;
		out[found++].index = all[i].gid_index;
	}
	return found;
}

int psrt_verbs_async(struct psrt_ctx *c, int32_t *type, uint32_t *number, char *text, int n)
{
	struct ibv_async_event e;
	if (psrt_ibv.get_async_event(c->ctx, &e))
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
	*type = e.event_type;
	*number = 0;
	snprintf(text, n, "%s", psrt_ibv.event_type_str(e.event_type));
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*number = e.element.qp->qp_num;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		*number = e.element.port_num;
		break;
	default:
		break;
	}
	psrt_ibv.ack_async_event(&e);
	return 1;
}
