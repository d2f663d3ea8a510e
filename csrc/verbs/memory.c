#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int access_flags(int access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;
	if (access & PSRT_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & PSRT_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & PSRT_REMOTE_ATOMIC)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	if (access & PSRT_ON_DEMAND)
		flags |= IBV_ACCESS_ON_DEMAND;
	return flags;
}

static int registered(struct ibv_mr *m, void **mr, uint32_t *lkey, uint32_t *rkey)
{
	if (!m)
		return errno ? -errno : -ENOMEM;
	*mr = m;
	*lkey = m->lkey;
	*rkey = m->rkey;
	return 0;
}

int psrt_verbs_reg(struct psrt_ctx *c, uint64_t addr, uint64_t length, int access, void **mr, uint32_t *lkey, uint32_t *rkey)
{
	errno = 0;
	return registered(psrt_ibv.reg_mr(c->pd, (void *)(uintptr_t)addr, length, access_flags(access)), mr, lkey, rkey);
}

int psrt_verbs_reg_dmabuf(struct psrt_ctx *c, int fd, uint64_t offset, uint64_t addr, uint64_t length, int access,
	void **mr, uint32_t *lkey, uint32_t *rkey)
{
	if (!psrt_ibv.reg_dmabuf_mr)
		return -ENOSYS;
	errno = 0;
	return registered(psrt_ibv.reg_dmabuf_mr(c->pd, offset, length, addr, fd, access_flags(access)), mr, lkey, rkey);
}

int psrt_verbs_has_dmabuf(void) { return psrt_ibv.reg_dmabuf_mr != NULL; }

int psrt_verbs_dereg(void *mr) { return -abs(psrt_ibv.dereg_mr(mr)); }

int psrt_verbs_on_demand(struct psrt_ctx *c)
{
	const uint32_t need = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
	struct ibv_device_attr_ex a;
	/* The header's ibv_query_device_ex would link against the library. */
	struct verbs_context *v = verbs_get_ctx_op(c->ctx, query_device_ex);
	memset(&a, 0, sizeof a);
	if (!v || v->query_device_ex(c->ctx, NULL, &a, sizeof a))
		return 0;
	return (a.odp_caps.general_caps & IBV_ODP_SUPPORT) && (a.odp_caps.per_transport_caps.rc_odp_caps & need) == need;
}
