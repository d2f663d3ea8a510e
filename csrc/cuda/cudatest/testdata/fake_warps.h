/* The fake driver's card: warps of 32 lanes that run what fake_text.h has compiled.
 *
 * Lanes that are at the same instruction do it together, one such group at a time. Which is
 * for most warps the hindmost, so that they come together again, as a card would like it; in
 * every eighth any, for a while, which is what sm_70 and later may do. An instruction in
 * which lanes meet is done when all that it names are there. So what hangs on an order that
 * nobody promises is seen, by its bits or because lanes wait for each other for ever.
 *
 * Memory is that of the launch's device and what is pinned of the host's: an address outside, or
 * one that is no multiple of what is read there, is the error that a card has, and
 * stderr is told where. So is it an error where two threads of a launch touch one word, one of which
 * writes, and have not met between: a card would do what it likes. */

enum { MISALIGNED_ADDRESS = 716, SHARE_A_ROW = 16 };

/* Who touched a word in a launch: threads, counted from 1, and how often they had met others
 * then. Of readers that of the most meetings, and whether there were more such. */
struct touch {
	u32 launch, writer, reader;
	unsigned short written, read;
	unsigned char atomic, several, far; /* the writer's way; others of the same row, and of another */
};

struct warp {
	const struct function *f;
	const unsigned char *argument;
	union cell (*reg)[WARP];
	int at[WARP], device, error;
	u32 live, waiting, first_thread, block, launch;
	unsigned short meetings[WARP];
	u64 random;
	struct block *near; /* where memory was found last */
};

static float number_of(float x)
{
	union cell c = { .w = 0x7fffffff };
	return x != x ? c.f : x;
}

static double wide_number_of(double x)
{
	union cell c = { .u = 0x7fffffffffffffff };
	return x != x ? c.d : x;
}

static void report(struct warp *w, const struct instruction *x, int lane, int error, const char *what, u64 value)
{
	if (w->error)
		return;
	w->error = error;
	fprintf(stderr, "fake driver: %s, line %d of the text, thread %u: %s %#llx\n", w->f->name, x->line, w->first_thread + (u32)lane, what, value);
}

static int inside(const struct block *b, int device, u64 at, int bytes)
{
	return (b->host || b->device == device) && at >= (u64)b->at && at - (u64)b->at + (u64)bytes <= b->bytes;
}

static int registered(u64 at, int bytes)
{
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (kept[i].at && at >= (u64)kept[i].at && at - (u64)kept[i].at + (u64)bytes <= kept[i].bytes)
			return 1;
	return 0;
}

static u32 row_of(u32 thread) { return (thread - 1) / SHARE_A_ROW; }

static int races_with_writer(const struct touch *t, u32 me, unsigned short now, int atomic)
{
	if (!t->writer || t->writer == me || (atomic && t->atomic))
		return 0;
	return row_of(t->writer) != row_of(me) || t->written >= now;
}

static int races_with_readers(const struct touch *t, u32 me, unsigned short now)
{
	if (!t->reader)
		return 0;
	return t->far || row_of(t->reader) != row_of(me) || t->read > now || (t->read == now && (t->several || t->reader != me));
}

static void has_read(struct touch *t, u32 me, unsigned short now)
{
	t->far |= t->reader && row_of(t->reader) != row_of(me);
	t->several = t->reader && now <= t->read && (t->several || t->reader != me);
	if (!t->reader || now > t->read) {
		t->reader = me;
		t->read = now;
	}
}

static void forget(struct block *b)
{
	if (b->touched)
		munmap(b->touched, (b->bytes / 4 + 1) * sizeof(struct touch));
}

static void watch(struct warp *w, const struct instruction *x, int lane, struct block *b, u64 at, int words)
{
	const int writes = x->op != OP_LOAD, atomic = x->op == OP_ADD_ATOMIC;
	if (!b->touched) {
		b->touched = mmap(NULL, (b->bytes / 4 + 1) * sizeof(struct touch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (b->touched == MAP_FAILED)
			abort();
	}
	const u32 me = w->first_thread + (u32)lane + 1;
	const unsigned short now = w->meetings[lane];
	struct touch *t = b->touched + (at - (u64)b->at) / 4;
	for (; words-- > 0; t++) {
		if (t->launch != w->launch)
			*t = (struct touch){ .launch = w->launch };
		if (races_with_writer(t, me, now, atomic))
			report(w, x, lane, LAUNCH, "a word that another thread writes:", at);
		if (writes && races_with_readers(t, me, now))
			report(w, x, lane, LAUNCH, "a word that another thread reads:", at);
		if (!writes) {
			has_read(t, me, now);
			continue;
		}
		t->writer = me;
		t->written = now;
		t->atomic = atomic;
	}
}

/* Where a lane reads or writes; NULL, and the error, where it may not. */
static void *reach(struct warp *w, const struct instruction *x, int lane)
{
	const u64 at = w->reg[x->operand[ADDRESS]][lane].u + (u64)x->offset;
	const int bytes = x->vector * x->bytes;
	struct block *b = w->near;
	if (at % (u64)bytes) {
		report(w, x, lane, MISALIGNED_ADDRESS, "a misaligned address", at);
		return NULL;
	}
	if (!b || !inside(b, w->device, at, bytes))
		for (b = blocks; b && !inside(b, w->device, at, bytes);)
			b = b->next;
	if (!b && !registered(at, bytes)) {
		report(w, x, lane, ILLEGAL_ADDRESS, "no memory of this device, nor pinned:", at);
		return NULL;
	}
	if (b) {
		w->near = b;
		watch(w, x, lane, b, at, bytes / 4);
	}
	return real((void *)at);
}

static void load(struct warp *w, const struct instruction *x, int lane, const void *from)
{
	for (int i = 0; i < x->vector; i++) {
		union cell *to = &w->reg[x->operand[i]][lane];
		to->u = 0;
		memcpy(to, (const char *)from + i * x->bytes, (size_t)x->bytes);
		if (x->sign && x->bytes == 4)
			to->i = to->s;
	}
}

static void memory(struct warp *w, const struct instruction *x, int lane)
{
	if (x->op == OP_PARAMETER) {
		const u64 at = w->reg[x->operand[ADDRESS]][lane].u + (u64)x->offset;
		if (at % (u64)(x->vector * x->bytes) || at + (u64)(x->vector * x->bytes) > w->f->argument)
			report(w, x, lane, ILLEGAL_ADDRESS, "beyond the argument:", at);
		else
			load(w, x, lane, w->argument + at);
		return;
	}
	void *at = reach(w, x, lane);
	if (!at)
		return;
	u64 old;
	switch (x->op) {
	case OP_LOAD: load(w, x, lane, at); break;
	case OP_STORE:
		for (int i = 0; i < x->vector; i++)
			memcpy((char *)at + i * x->bytes, &w->reg[x->operand[i]][lane], (size_t)x->bytes);
		break;
	default: /* an addition that is atomic */
		memcpy(&old, at, sizeof old);
		const u64 sum = old + w->reg[x->operand[1]][lane].u;
		w->reg[x->operand[0]][lane].u = old;
		memcpy(at, &sum, sizeof sum);
	}
}

#define EVERY(lane, lanes) (u32 m_ = (lanes), lane; m_ && (lane = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)
#define A w->reg[x->operand[1]][l]
#define B w->reg[x->operand[2]][l]
#define C w->reg[x->operand[3]][l]
#define D w->reg[x->operand[0]][l]
#define NEXT(name, text, does) \
	case OP_##name: \
		if (lanes == ~0u) \
			for (int l = 0; l < WARP; l++) \
				does; \
		else \
			for EVERY(l, lanes) \
				does; \
		break;

static void arithmetic(struct warp *w, const struct instruction *x, u32 lanes)
{
	switch (x->op) {
	INSTRUCTIONS
	default: break;
	}
}

#undef NEXT
#undef A
#undef B
#undef C
#undef D

/* The lanes at x whose fellows are all there: each names them, itself among them, by a mask. */
static u32 complete(struct warp *w, const struct instruction *x, int at)
{
	u32 there = 0, done = 0;
	const int mask = x->operand[x->op == OP_SHUFFLE ? 4 : 0];
	for EVERY(l, w->waiting)
		there |= w->at[l] == at ? 1u << l : 0;
	for EVERY(l, there) {
		const u32 named = w->reg[mask][l].w;
		if (!(named >> l & 1))
			report(w, x, (int)l, LAUNCH, "a lane that its own mask does not name:", named);
		if (named & ~w->live)
			report(w, x, (int)l, LAUNCH, "lanes that have ended are named by the mask", named);
		int all = (named & ~there) == 0;
		for EVERY(o, named & there)
			all &= w->reg[mask][o].w == named;
		done |= all ? 1u << l : 0;
	}
	return done;
}

/* The butterfly: lane l has what lane l ^ b has, where the clamp c lets it. */
static void shuffle(struct warp *w, const struct instruction *x, u32 lanes)
{
	u32 old[WARP];
	for (int l = 0; l < WARP; l++)
		old[l] = w->reg[x->operand[1]][l].w;
	for EVERY(l, lanes) {
		const u32 b = w->reg[x->operand[2]][l].w & 31, c = w->reg[x->operand[3]][l].w;
		const u32 part = c >> 8 & 31, most = (l & part) | (c & 31 & ~part);
		const u32 from = (l ^ b) <= most ? l ^ b : l;
		if (!(w->reg[x->operand[4]][l].w >> from & 1))
			report(w, x, (int)l, LAUNCH, "what a lane has that the mask does not name:", from);
		w->reg[x->operand[0]][l].u = old[from];
	}
}

/* Some lanes have come to where they are to meet others. */
static void meet(struct warp *w, const struct instruction *x, u32 lanes, int at)
{
	w->waiting |= lanes;
	const u32 done = complete(w, x, at);
	if (x->op == OP_SHUFFLE)
		shuffle(w, x, done);
	for EVERY(l, done) {
		w->at[l]++;
		w->meetings[l] += x->op == OP_MEET; /* only this orders what memory has */
	}
	w->waiting &= ~done;
}

static u64 draw(struct warp *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random >> 11;
}

/* The lanes that go on now, all at one instruction; 0 where none can. */
static u32 choose(struct warp *w, int any)
{
	const u32 ready = w->live & ~w->waiting;
	if (!ready)
		return 0;
	int first = (int)__builtin_ctz(ready);
	if (any) {
		for (u64 skip = draw(w) % WARP; skip-- > 0;) {
			const u32 later = first < WARP - 1 ? ready & ~0u << (first + 1) : 0;
			first = (int)__builtin_ctz(later ? later : ready);
		}
	} else {
		for EVERY(l, ready)
			first = w->at[l] < w->at[first] ? (int)l : first;
	}
	u32 lanes = 0;
	for EVERY(l, ready)
		lanes |= w->at[l] == w->at[first] ? 1u << l : 0;
	return lanes;
}

/* One group, until it parts, ends, waits, or others are where it goes on. */
static void go_on(struct warp *w, u32 lanes, long most)
{
	const u32 others = w->live & ~w->waiting & ~lanes;
	int at = w->at[__builtin_ctz(lanes)], until = w->f->length;
	for EVERY(l, others)
		until = w->at[l] > at && w->at[l] < until ? w->at[l] : until;
	for (; !w->error && most-- > 0 && at < until; at++) {
		const struct instruction *x = w->f->code + at;
		u32 active = lanes;
		if (x->guard >= 0) {
			for EVERY(l, lanes)
				active &= (w->reg[x->guard][l].u != 0) != x->unless ? ~0u : ~(1u << l);
			if (!active)
				continue;
		}
		switch (x->op) {
		case OP_LOAD: case OP_STORE: case OP_PARAMETER: case OP_ADD_ATOMIC:
			for EVERY(l, active)
				memory(w, x, (int)l);
			break;
		case OP_BRANCH:
			if (active == lanes) {
				at = x->to - 1;
				break;
			}
			for EVERY(l, lanes)
				w->at[l] = active >> l & 1 ? x->to : at + 1;
			return;
		case OP_RETURN:
			for EVERY(l, lanes)
				w->at[l] = at + 1;
			w->live &= ~active;
			return;
		case OP_SHUFFLE: case OP_MEET:
			for EVERY(l, lanes)
				w->at[l] = active >> l & 1 ? at : at + 1;
			meet(w, x, active, at);
			return;
		default:
			arithmetic(w, x, active);
		}
	}
	for EVERY(l, lanes)
		w->at[l] = at;
}

static int run_warp(struct warp *w, u32 lanes, u32 threads, u32 blocks)
{
	for (int l = 0; l < WARP; l++) {
		w->reg[TID][l].w = w->first_thread - w->block * threads + (u32)l;
		w->reg[NTID][l].w = threads;
		w->reg[CTAID][l].w = w->block;
		w->reg[NCTAID][l].w = blocks;
		w->reg[LANEID][l].w = (u32)l;
		w->at[l] = w->meetings[l] = 0;
	}
	w->live = lanes;
	w->waiting = 0;
	const int any = draw(w) % 8 == 0;
	while (w->live && !w->error) {
		const u32 group = choose(w, any);
		if (!group) {
			const int l = (int)__builtin_ctz(w->live);
			report(w, w->f->code + w->at[l], l, LAUNCH, "lanes that wait for others, which never come:", w->waiting);
			break;
		}
		go_on(w, group, any ? (long)(draw(w) % 64) + 1 : 1L << 62);
	}
	return w->error;
}

/* All warps of a launch, the last first: nobody promises an order. */
static int run_function(const struct function *f, int device, u32 blocks, u32 threads, const void *argument)
{
	static u32 launch;
	union cell (*reg)[WARP] = malloc((size_t)f->registers * sizeof *reg);
	if (!reg)
		abort();
	struct warp w = { .f = f, .argument = argument, .reg = reg, .device = device, .launch = ++launch, .random = 88172645463325252u ^ launch };
	for (int r = 0; r < f->registers; r++)
		for (int l = 0; l < WARP; l++)
			reg[r][l] = f->first[r];
	for (u32 b = blocks; b-- > 0 && !w.error;)
		for (u32 t = (threads - 1) / WARP * WARP;; t -= WARP) {
			w.block = b;
			w.first_thread = b * threads + t;
			if (run_warp(&w, threads - t < WARP ? ~0u >> (WARP - (threads - t)) : ~0u, threads, blocks) || !t)
				break;
		}
	free(reg);
	return w.error;
}
