#ifndef PSRT_VERBS_H
#define PSRT_VERBS_H

#include <stdint.h>

/* All functions return 0 or a positive count, or -errno. Handles are opaque
 * here so that only verbs.c needs the library's header. */

struct psrt_ctx; /* an open device and its protection domain */
struct psrt_cq;  /* a completion queue and its channel */
struct psrt_qp;
struct psrt_srq;

/* Mirrored by Go structs of the same layout: types.go. */
struct psrt_send {
	uint64_t id;
	uint64_t addr; /* of the bytes; where PSRT_OFFSET: offset in inline_bytes */
	uint64_t remote_addr;
	uint64_t operand; /* fetch-add: addend; compare-swap: compare */
	uint64_t swap;
	uint32_t length, lkey, rkey, imm;
	uint32_t op, flags;
};
enum { PSRT_SEND, PSRT_WRITE, PSRT_WRITE_IMM, PSRT_READ, PSRT_FETCH_ADD, PSRT_COMPARE_SWAP };
/* PSRT_INLINE takes the bytes at once; PSRT_OFFSET comes with it only. */
enum { PSRT_SIGNALED = 1, PSRT_INLINE = 2, PSRT_OFFSET = 4 };

struct psrt_recv {
	uint64_t id, addr;
	uint32_t length, lkey;
};

struct psrt_done {
	uint64_t id;
	uint32_t status, vendor_err, bytes, imm, qpn, with_imm;
};

struct psrt_device_attr {
	uint64_t max_mr_size;
	int32_t max_qp_wr, max_cqe, max_qp_rd_atom, max_qp_init_rd_atom, atomics, ports, max_srq_wr;
};

struct psrt_port_attr {
	uint32_t state, active_mtu, link_layer, lid, gids, max_msg;
};

/* Entries of a device's GID tables that are looked at. */
#define PSRT_GIDS 512

struct psrt_gid {
	uint8_t raw[16];
	uint32_t type, ifindex, index;
};

/* What the ladder from INIT to RTS needs of both sides. */
struct psrt_path {
	uint8_t dgid[16];
	uint32_t dest_qpn, dest_psn, psn;
	uint32_t port, gid_index, global, dlid, mtu, traffic_class, hop_limit;
	uint32_t rd_atomic, dest_rd_atomic, min_rnr_timer, timeout, retry, rnr_retry;
};

int psrt_verbs_load(char *missing, int n); /* missing: what, where it fails */
int psrt_verbs_devices(char *names, int n); /* NUL-separated; returns the count */
int psrt_verbs_open(const char *name, struct psrt_ctx **out);
int psrt_verbs_close(struct psrt_ctx *c);
int psrt_verbs_attr(struct psrt_ctx *c, struct psrt_device_attr *out);
int psrt_verbs_port(struct psrt_ctx *c, int port, struct psrt_port_attr *out);
int psrt_verbs_gid(struct psrt_ctx *c, int port, int index, struct psrt_gid *out);
int psrt_verbs_gids(struct psrt_ctx *c, int port, struct psrt_gid *out, int n); /* returns the count, of all that are set */
int psrt_verbs_async(struct psrt_ctx *c, int32_t *type, uint32_t *number, char *text, int n);

enum { PSRT_REMOTE_READ = 1, PSRT_REMOTE_WRITE = 2, PSRT_REMOTE_ATOMIC = 4, PSRT_ON_DEMAND = 8 };
int psrt_verbs_reg(struct psrt_ctx *c, uint64_t addr, uint64_t length, int access, void **mr, uint32_t *lkey, uint32_t *rkey);
/* Memory of another device, by its dma-buf; -ENOSYS: the library is too old. */
int psrt_verbs_reg_dmabuf(struct psrt_ctx *c, int fd, uint64_t offset, uint64_t addr, uint64_t length, int access,
	void **mr, uint32_t *lkey, uint32_t *rkey);
int psrt_verbs_has_dmabuf(void);
int psrt_verbs_dereg(void *mr);
int psrt_verbs_on_demand(struct psrt_ctx *c); /* 1: the device can page for reliable connections */

/* A pool of receives without buffers, for many queue pairs; they all have one id. */
int psrt_verbs_srq_create(struct psrt_ctx *c, int wr, struct psrt_srq **out);
int psrt_verbs_srq_destroy(struct psrt_srq *s);
int psrt_verbs_srq_post(struct psrt_srq *s, uint64_t id, int n, int *posted);

int psrt_verbs_cq_create(struct psrt_ctx *c, int cqe, struct psrt_cq **out);
int psrt_verbs_cq_destroy(struct psrt_cq *q);
int psrt_verbs_cq_poll(struct psrt_cq *q, struct psrt_done *out, int n);
int psrt_verbs_cq_arm(struct psrt_cq *q);
/* Waits for an event of an armed queue, for wake_fd (an eventfd, which it
 * empties) or for the timeout, with and without event the result is 0; -ENODEV:
 * there will be no more events. */
int psrt_verbs_cq_wait(struct psrt_cq *q, int wake_fd, int64_t timeout_nanos);

/* pool: where its receives come from, NULL: from its own queue. */
int psrt_verbs_qp_create(struct psrt_ctx *c, struct psrt_cq *q, struct psrt_srq *pool, int send_wr, int recv_wr, int inline_bytes,
	struct psrt_qp **out, uint32_t *qpn, uint32_t *inline_got);
int psrt_verbs_qp_destroy(struct psrt_qp *q);
int psrt_verbs_qp_init(struct psrt_qp *q, int port);
int psrt_verbs_qp_rtr(struct psrt_qp *q, const struct psrt_path *p);
int psrt_verbs_qp_rts(struct psrt_qp *q, const struct psrt_path *p);
int psrt_verbs_qp_reset(struct psrt_qp *q);
int psrt_verbs_qp_error(struct psrt_qp *q);
int psrt_verbs_post_send(struct psrt_qp *q, const struct psrt_send *s, int n, const uint8_t *inline_bytes, int *posted);
int psrt_verbs_post_recv(struct psrt_qp *q, const struct psrt_recv *r, int n, int *posted);
const char *psrt_verbs_status_text(uint32_t status);

#endif
