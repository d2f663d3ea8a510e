/* What a process's own points tell of its RDMA, per device and queue pair: the
 * data of a card pass the kernel by. Runs at each point, once a batch. */
#include "kernel.h"

char license_text[] SEC("license") = "Dual MIT/GPL";

enum {
	BATCH = 32, /* completions of one poll, at most */
	WC_RECV = 128,

	TOLD_COMPLETIONS = 0, /* batches */
	TOLD_REQUESTS = 1,
	TOLD_MISSED = 2, /* batches or parts of them: no room, or not to be read */
	TOLD = 3,
};

/* struct ibv_wc, whose layout is libibverbs' promise. */
struct completion {
	u64 id;
	u32 status, opcode, vendor_error, bytes, immediate, queue_pair, source_queue_pair, flags, rest[2];
};

struct queue_key {
	u64 device; /* address of its name: its identity in the process */
	u32 queue_pair;
	u32 unused;
};

struct queue {
	u64 received_bytes, received;
	u64 sent_bytes, sent; /* all requests but reads */
	u64 read_bytes, reads;
	u64 completions, errors; /* of completions and of doorbells */
	char device[64];
};

static const struct queue fresh;

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, struct queue_key);
	TYPE(value, struct queue);
} queues SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, TOLD);
	TYPE(key, u32);
	TYPE(value, u64);
} told SEC(".maps");

INLINE void add(u64 *to, u64 n) { __sync_fetch_and_add(to, n); }

INLINE void tell(u32 what)
{
	u64 *n = map_lookup(&told, &what);
	if (n)
		add(n, 1);
}

INLINE struct queue *find(u64 device, u32 queue_pair)
{
	struct queue_key key = { .device = device, .queue_pair = queue_pair };
	struct queue *q = map_lookup(&queues, &key);
	if (q)
		return q;
	map_update(&queues, &key, &fresh, NEW_ONLY);
	q = map_lookup(&queues, &key);
	if (q)
		probe_read_user_text(q->device, sizeof q->device, (void *)device);
	return q;
}

SEC("uprobe")
int completions(struct pt_regs *r)
{
	u64 device = r->di, n = r->dx;
	struct completion *wc = (void *)r->r9;
	tell(TOLD_COMPLETIONS);
	if (n > BATCH)
		tell(TOLD_MISSED);
	for (u32 i = 0; i < BATCH && i < n; i++) {
		struct completion c;
		struct queue *q;
		if (probe_read_user(&c, sizeof c, wc + i) || !(q = find(device, c.queue_pair))) {
			tell(TOLD_MISSED);
			continue;
		}
		add(&q->completions, 1);
		if (c.status) {
			add(&q->errors, 1);
		} else if (c.opcode & WC_RECV) {
			add(&q->received, 1);
			add(&q->received_bytes, c.bytes);
		}
	}
	return 0;
}

SEC("uprobe")
int requests(struct pt_regs *r)
{
	struct queue *q = find(r->di, r->r9);
	tell(TOLD_REQUESTS);
	if (!q) {
		tell(TOLD_MISSED);
		return 0;
	}
	add(&q->sent, r->dx - r->r10);
	add(&q->sent_bytes, r->cx);
	add(&q->reads, r->r10);
	add(&q->read_bytes, r->ax);
	if (r->r8)
		add(&q->errors, 1);
	return 0;
}
