/* A libnccl.so.2 for tests: the ranks are threads or processes of one machine that share a
 * file, each on a device of csrc/cuda/cudatest's libcuda.so.1. Sums are made from the last
 * rank to the first, which is no order of psrt's, and work waits in the stream until
 * somebody asks for its end. Communicators that do not block are busy once after each call.
 * An exchange has at most one send to and one receive from each rank in a group. Memory
 * that is registered with the communicator and memory that is not must not meet in one call,
 * neither here nor among ranks: NCCL may wait for ever then, and here the call fails.
 *
 * PSRT_FAKE_NCCL_FAIL    RANK:OP  an asynchronous error at that rank's so manieth work
 * PSRT_FAKE_NCCL_STALL   RANK:OP  which never ends
 * PSRT_FAKE_NCCL_KILL    RANK:OP  at which that rank's process ends
 * PSRT_FAKE_NCCL_HANG    FILE     while it is there no abort returns; may come and go
 * PSRT_FAKE_NCCL_REFUSE  RANK:N   that rank's registrations fail, from the Nth on, from 0
 * PSRT_FAKE_NCCL_TRACE   FILE     "finalize RANK", "destroy RANK" or "abort RANK" is added to it
 *
 * -DVERSION=N, -DWITHOUT_P2P, -DWITHOUT_CONFIG and -DWITHOUT_REGISTER make older ones. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 22703
#endif

int cuCtxGetDevice(int *device);
int cuPointerGetAttribute(void *to, int attribute, unsigned long long at);
int psrt_fake_give(void *stream, int (*given)(void *), void *argument);

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { RANKS = 8 };
#define BLOCK ((size_t)64 << 20) /* what a rank gives to a collective */
#define PIECE ((size_t)16 << 20) /* to an exchange with one other */

struct shared {
	_Atomic int joined;
	struct {
		_Atomic int pid, device;
		_Atomic uint64_t came, went; /* the newest work */
		_Atomic int known; /* with came: in registered memory */
	} rank[RANKS];
	struct {
		_Atomic uint64_t sent, taken;
		_Atomic size_t bytes;
		_Atomic int known;
	} pair[RANKS][RANKS];
	_Alignas(4096) unsigned char data[];
};

struct range {
	struct range *next;
	const unsigned char *at;
	size_t bytes;
};

struct comm {
	struct shared *all;
	size_t size;
	int rank, ranks, blocking, busy;
	long registrations; /* ever */
	struct range *registered;
	const char *why; /* what ncclGetLastError says */
	_Atomic int state, aborted;
	uint64_t works, blocks;
	long fail, stall, kill, refuse; /* at which work or registration, -1 never */
	char path[128];
};

typedef struct {
	char bytes[128];
} id_value;

struct config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };

struct part {
	void *at;
	size_t bytes;
	uint64_t turn; /* of a send: which it is */
	int peer, out, done;
};

struct work {
	struct comm *c;
	enum kind kind;
	const void *send;
	void *recv;
	size_t count, width, n; /* n: parts of an exchange */
	int type, op, root, began, known;
	uint64_t number, block;
	struct part parts[];
};

static _Thread_local struct {
	int depth;
	struct comm *c;
	void *stream;
	size_t n;
	struct part parts[2 * RANKS];
} group;

static size_t width(int type)
{
	static const size_t all[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
	return type >= 0 && type < 10 ? all[type] : 0;
}

static unsigned char *block(struct comm *c, int rank) { return c->all->data + rank * BLOCK; }
static unsigned char *piece(struct comm *c, int from, int to) { return c->all->data + c->ranks * BLOCK + ((size_t)from * c->ranks + to) * PIECE; }

static float from_bf16(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

static uint16_t to_bf16(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#define PICK(op, a, b) ((op) == 0 ? (a) + (b) : (op) == 1 ? (a) * (b) : (op) == 2 ? ((b) > (a) ? (b) : (a)) : ((b) < (a) ? (b) : (a)))
#define EACH(T) do { for (size_t i = 0; i < n; i++) { T a, b, o; memcpy(&a, to + i * sizeof a, sizeof a); memcpy(&b, from + i * sizeof b, sizeof b); \
	o = (T)PICK(op, a, b); memcpy(to + i * sizeof o, &o, sizeof o); } } while (0)

static void combine(int type, int op, unsigned char *to, const unsigned char *from, size_t n)
{
	switch (type) {
	case 0: if (op < 2) EACH(uint8_t); else EACH(int8_t); break; /* without a sign they wrap */
	case 1: EACH(uint8_t); break;
	case 2: if (op < 2) EACH(uint32_t); else EACH(int32_t); break;
	case 3: EACH(uint32_t); break;
	case 4: if (op < 2) EACH(uint64_t); else EACH(int64_t); break;
	case 5: EACH(uint64_t); break;
	case 6: EACH(_Float16); break;
	case 7: EACH(float); break;
	case 8: EACH(double); break;
	case 9:
		for (size_t i = 0; i < n; i++) {
			uint16_t a, b;
			memcpy(&a, to + 2 * i, 2);
			memcpy(&b, from + 2 * i, 2);
			a = to_bf16(PICK(op, from_bf16(a), from_bf16(b)));
			memcpy(to + 2 * i, &a, 2);
		}
	}
}

static int misused(struct comm *c, const char *why)
{
	c->why = why;
	return INVALID_USAGE;
}

static const char mixed_here[] = "registered and unregistered buffers are mixed in a call", mixed_among[] = "registered and unregistered buffers are mixed among ranks";

static int known(const struct comm *c, const void *at, size_t bytes)
{
	for (const struct range *r = c->registered; r; r = r->next)
		if ((const unsigned char *)at >= r->at && (const unsigned char *)at + bytes <= r->at + r->bytes)
			return 1;
	return 0;
}

/* Is this the work at which something is to happen? */
static int meets(struct work *w, long at) { return at >= 0 && w->number >= (uint64_t)at; }

/* What every work does first; 1: go on, 0: it is not over, -1: it is. */
static int before(struct work *w)
{
	if (w->c->aborted)
		return -1;
	if (meets(w, w->c->kill))
		_exit(9);
	if (meets(w, w->c->fail))
		w->c->state = REMOTE_ERROR;
	return !meets(w, w->c->fail) && !meets(w, w->c->stall);
}

static int collective(void *argument)
{
	struct work *w = argument;
	struct comm *c = w->c;
	int go = before(w);
	if (go <= 0) {
		if (go < 0)
			free(w);
		return -go;
	}
	size_t mine = w->count * w->width * (w->kind == REDUCE_SCATTER ? c->ranks : 1), bytes = w->count * w->width;
	if (!w->began) {
		for (int r = 0; r < c->ranks; r++)
			if (c->all->rank[r].went + 1 < w->block)
				return 0;
		if (w->kind != BROADCAST || c->rank == w->root)
			memcpy(block(c, c->rank), w->send, mine);
		c->all->rank[c->rank].known = w->known;
		c->all->rank[c->rank].came = w->block;
		w->began = 1;
	}
	for (int r = 0; r < c->ranks; r++)
		if (c->all->rank[r].came < w->block)
			return 0;
	for (int r = 0; r < c->ranks; r++)
		if (c->all->rank[r].known != w->known) {
			c->state = misused(c, mixed_among);
			return 0;
		}
	switch (w->kind) {
	case ALL_GATHER:
		for (int r = 0; r < c->ranks; r++)
			memcpy((char *)w->recv + r * bytes, block(c, r), bytes);
		break;
	case BROADCAST: memcpy(w->recv, block(c, w->root), bytes); break;
	default: {
		size_t at = w->kind == REDUCE_SCATTER ? c->rank * bytes : 0;
		memcpy(w->recv, block(c, c->ranks - 1) + at, bytes);
		for (int r = c->ranks - 2; r >= 0; r--)
			combine(w->type, w->op, w->recv, block(c, r) + at, w->count);
	}
	}
	c->all->rank[c->rank].went = w->block;
	free(w);
	return 1;
}

static int exchange(void *argument)
{
	struct work *w = argument;
	struct comm *c = w->c;
	int go = before(w), left = 0;
	if (go <= 0) {
		if (go < 0)
			free(w);
		return -go;
	}
	for (size_t i = 0; i < w->n; i++) {
		struct part *p = &w->parts[i];
		if (p->done)
			continue;
		int from = p->out ? c->rank : p->peer, to = p->out ? p->peer : c->rank;
		uint64_t sent = c->all->pair[from][to].sent, taken = c->all->pair[from][to].taken;
		if (p->out && !p->turn && sent == taken) {
			memcpy(piece(c, from, to), p->at, p->bytes);
			c->all->pair[from][to].bytes = p->bytes;
			c->all->pair[from][to].known = w->known;
			c->all->pair[from][to].sent = p->turn = sent + 1;
		} else if (p->out && p->turn && taken >= p->turn) {
			p->done = 1;
		} else if (!p->out && sent > taken) {
			if (c->all->pair[from][to].bytes != p->bytes || c->all->pair[from][to].known != w->known) {
				c->state = misused(c, c->all->pair[from][to].bytes != p->bytes ? "a rank sends more or less than is received" : mixed_among);
				return 0;
			}
			memcpy(p->at, piece(c, from, to), p->bytes);
			c->all->pair[from][to].taken = taken + 1;
			p->done = 1;
		}
		left += !p->done;
	}
	if (left)
		return 0;
	free(w);
	return 1;
}

int ncclGetVersion(int *version) { *version = VERSION; return SUCCESS; }

int ncclGetUniqueId(id_value *id)
{
	static _Atomic int made;
	memset(id, 0, sizeof *id);
	snprintf(id->bytes, sizeof id->bytes, "/dev/shm/psrt-fake-nccl.%d.%d", (int)getpid(), made++);
	int fd = open(id->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0)
		return SYSTEM_ERROR;
	size_t size = sizeof(struct shared) + RANKS * BLOCK + RANKS * RANKS * PIECE;
	int e = ftruncate(fd, size);
	close(fd);
	return e ? SYSTEM_ERROR : SUCCESS;
}

static long when(const char *variable, int rank)
{
	int r;
	long at;
	const char *s = getenv(variable);
	return s && sscanf(s, "%d:%ld", &r, &at) == 2 && r == rank ? at : -1;
}

/* All are there: is any device used twice? */
static int complete(struct comm *c)
{
	if (c->all->joined < c->ranks)
		return IN_PROGRESS;
	unlink(c->path);
	for (int r = 0; r < c->ranks; r++)
		for (int q = 0; q < r; q++)
			if (c->all->rank[r].device == c->all->rank[q].device)
				return misused(c, "Duplicate GPU detected");
	return SUCCESS;
}

static int open_comm(struct comm **out, int ranks, id_value *id, int rank, int blocking)
{
	int device, fd;
	if (ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks)
		return INVALID_ARGUMENT;
	if (cuCtxGetDevice(&device))
		return CUDA_ERROR;
	struct comm *c = calloc(1, sizeof *c);
	c->size = sizeof(struct shared) + RANKS * BLOCK + RANKS * RANKS * PIECE;
	memcpy(c->path, id->bytes, sizeof c->path);
	if ((fd = open(c->path, O_RDWR)) < 0) {
		free(c);
		return SYSTEM_ERROR;
	}
	c->all = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->all == MAP_FAILED) {
		free(c);
		return SYSTEM_ERROR;
	}
	c->rank = rank;
	c->ranks = ranks;
	c->blocking = blocking;
	c->fail = when("PSRT_FAKE_NCCL_FAIL", rank);
	c->stall = when("PSRT_FAKE_NCCL_STALL", rank);
	c->kill = when("PSRT_FAKE_NCCL_KILL", rank);
	c->refuse = when("PSRT_FAKE_NCCL_REFUSE", rank);
	c->all->rank[rank].device = device;
	c->all->rank[rank].pid = getpid();
	c->state = IN_PROGRESS;
	*out = c;
	c->all->joined++;
	return SUCCESS;
}

int ncclCommInitRank(struct comm **out, int ranks, id_value id, int rank)
{
	int e = open_comm(out, ranks, &id, rank, 1);
	while (!e && ((*out)->state = complete(*out)) == IN_PROGRESS)
		usleep(1000);
	return e ? e : (*out)->state;
}

int ncclCommGetAsyncError(struct comm *c, int *state)
{
	if (c->state == IN_PROGRESS)
		c->state = complete(c);
	*state = c->state;
	if (c->busy) {
		c->busy = 0;
		if (c->state == SUCCESS)
			*state = IN_PROGRESS;
	}
	for (int r = 0; r < c->ranks; r++) {
		int pid = c->all->rank[r].pid;
		if (pid && kill(pid, 0) && errno == ESRCH)
			*state = c->state = REMOTE_ERROR;
	}
	return SUCCESS;
}

static void trace(const struct comm *c, const char *what)
{
	const char *path = getenv("PSRT_FAKE_NCCL_TRACE");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (f) {
		fprintf(f, "%s %d\n", what, c->rank);
		fclose(f);
	}
}

/* Streams may still name it: it is left. */
static int leave(struct comm *c)
{
	c->aborted = 1;
	unlink(c->path);
	return SUCCESS;
}

int ncclCommAbort(struct comm *c)
{
	const char *hang = getenv("PSRT_FAKE_NCCL_HANG");
	c->aborted = 1;
	while (hang && !access(hang, F_OK))
		usleep(1000);
	trace(c, "abort");
	return leave(c);
}

int ncclCommDestroy(struct comm *c)
{
	if (c->registered || c->busy)
		return INVALID_USAGE;
	trace(c, "destroy");
	return leave(c);
}

#ifndef WITHOUT_CONFIG
int ncclCommInitRankConfig(struct comm **out, int ranks, id_value id, int rank, struct config *config)
{
	if (config->size != sizeof *config || config->magic != 0xcafebeef || config->version != 21400)
		return INVALID_ARGUMENT;
	int e = open_comm(out, ranks, &id, rank, config->blocking);
	return e ? e : IN_PROGRESS;
}

int ncclCommFinalize(struct comm *c)
{
	trace(c, "finalize");
	c->busy = !c->blocking;
	return c->busy ? IN_PROGRESS : SUCCESS;
}
#endif

#ifndef WITHOUT_REGISTER
/* Is it memory of the device, which nobody has given back? */
static int there(const void *at)
{
	int type;
	return !cuPointerGetAttribute(&type, 2, (uintptr_t)at) && type == 2;
}

int ncclCommRegister(struct comm *c, void *at, size_t bytes, void **handle)
{
	if (!bytes || !there(at))
		return INVALID_ARGUMENT;
	if (c->registrations++ >= c->refuse && c->refuse >= 0)
		return SYSTEM_ERROR;
	struct range *r = malloc(sizeof *r);
	*r = (struct range){ c->registered, at, bytes };
	*handle = c->registered = r;
	return SUCCESS;
}

/* Before the memory is given back. */
int ncclCommDeregister(struct comm *c, void *handle)
{
	struct range **p = &c->registered, *r;
	while (*p && *p != handle)
		p = &(*p)->next;
	if (!(r = *p) || !there(r->at))
		return INVALID_ARGUMENT;
	*p = r->next;
	free(r);
	return SUCCESS;
}
#endif

const char *ncclGetErrorString(int result)
{
	static const char *all[] = { "no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress" };
	return result >= 0 && result < 8 ? all[result] : "unknown result code";
}

const char *ncclGetLastError(struct comm *c)
{
	return c && c->why ? c->why : "";
}

static int give(struct comm *c, void *stream, int (*f)(void *), struct work *w)
{
	if (!c || c->busy || c->state == IN_PROGRESS) {
		free(w);
		return INVALID_ARGUMENT;
	}
	w->c = c;
	w->number = ++c->works;
	if (f == collective)
		w->block = ++c->blocks;
	if (psrt_fake_give(stream, f, w))
		return CUDA_ERROR;
	c->busy = !c->blocking;
	return c->busy ? IN_PROGRESS : SUCCESS;
}

static int start(enum kind kind, const void *send, void *recv, size_t count, int type, int op, int root, struct comm *c, void *stream)
{
	if (!c || !width(type) || op < 0 || op > 3 || count * width(type) * (kind == REDUCE_SCATTER ? c->ranks : 1) > BLOCK)
		return INVALID_ARGUMENT;
	size_t n = count * width(type);
	int is = known(c, send, kind == REDUCE_SCATTER ? c->ranks * n : n);
	if (is != known(c, recv, kind == ALL_GATHER ? c->ranks * n : n))
		return misused(c, mixed_here);
	struct work *w = calloc(1, sizeof *w);
	w->kind = kind;
	w->known = is;
	w->send = send;
	w->recv = recv;
	w->count = count;
	w->width = width(type);
	w->type = type;
	w->op = op;
	w->root = root;
	return give(c, stream, collective, w);
}

int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, struct comm *c, void *stream) { return start(ALL_REDUCE, send, recv, count, type, op, 0, c, stream); }
int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, struct comm *c, void *stream) { return start(REDUCE_SCATTER, send, recv, count, type, op, 0, c, stream); }
int ncclAllGather(const void *send, void *recv, size_t count, int type, struct comm *c, void *stream) { return start(ALL_GATHER, send, recv, count, type, 0, 0, c, stream); }
int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, struct comm *c, void *stream) { return start(BROADCAST, send, recv, count, type, 0, root, c, stream); }

int ncclGroupStart(void)
{
	if (!group.depth++)
		group.n = 0;
	return SUCCESS;
}

int ncclGroupEnd(void)
{
	if (--group.depth || !group.n)
		return SUCCESS;
	int is = known(group.c, group.parts[0].at, group.parts[0].bytes);
	for (size_t i = 1; i < group.n; i++)
		if (known(group.c, group.parts[i].at, group.parts[i].bytes) != is)
			return misused(group.c, mixed_here);
	struct work *w = calloc(1, sizeof *w + group.n * sizeof *w->parts);
	w->known = is;
	w->n = group.n;
	memcpy(w->parts, group.parts, group.n * sizeof *w->parts);
	return give(group.c, group.stream, exchange, w);
}

#ifndef WITHOUT_P2P
static int add(void *at, size_t count, int type, int peer, int out, struct comm *c, void *stream)
{
	if (!group.depth || group.n == 2 * RANKS || !width(type) || peer < 0 || peer >= c->ranks || count * width(type) > PIECE)
		return INVALID_ARGUMENT;
	group.c = c;
	group.stream = stream;
	group.parts[group.n++] = (struct part){ .at = at, .bytes = count * width(type), .peer = peer, .out = out };
	return SUCCESS;
}

int ncclSend(const void *at, size_t count, int type, int peer, struct comm *c, void *stream) { return add((void *)at, count, type, peer, 1, c, stream); }
int ncclRecv(void *at, size_t count, int type, int peer, struct comm *c, void *stream) { return add(at, count, type, peer, 0, c, stream); }
#endif
