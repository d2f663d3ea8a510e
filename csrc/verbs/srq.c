#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32 };

int psrt_verbs_srq_create(struct psrt_ctx *c, int wr, struct psrt_srq **out)
{
	struct ibv_srq_init_attr a;
	struct psrt_srq *s = calloc(1, sizeof *s);
	int err;
	if (!s)
		return -ENOMEM;
	memset(&a, 0, sizeof a);
	a.attr.max_wr = wr;
	a.attr.max_sge = 1;
	errno = 0;
	s->srq = psrt_ibv.create_srq(c->pd, &a);
	if (!s->srq) {
		err = errno ? -errno : -ENOMEM;
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

int psrt_verbs_srq_destroy(struct psrt_srq *s)
{
	int err = psrt_ibv.destroy_srq(s->srq);
	free(s);
	return -abs(err);
}

int psrt_verbs_srq_post(struct psrt_srq *s, uint64_t id, int n, int *posted)
{
	struct ibv_recv_wr w[BATCH], *bad;
	*posted = 0;
	memset(w, 0, sizeof w);
	while (*posted < n) {
		int k = n - *posted < BATCH ? n - *posted : BATCH;
		for (int i = 0; i < k; i++) {
			w[i].wr_id = id;
			w[i].next = i + 1 < k ? &w[i + 1] : NULL;
		}
		bad = NULL;
		int err = ibv_post_srq_recv(s->srq, w, &bad);
		if (err) {
			*posted += bad ? (int)(bad - w) : k;
			return -abs(err);
		}
		*posted += k;
	}
	return 0;
}
