/* Sums of whole vectors along a list of merges; part of body.h.
 *
 * Every tile of the vectors goes through the same steps, so they are worked out
 * once. A step adds its operands, first to last, in registers and writes once:
 * merges into one destination that follow each other are one step. A chain is
 * thus one step that reads each source once and writes the result once; of a
 * tree, what lies between its steps is TILE floats a place, in the cache.
 *
 * TILE is eight lines: as many of one source as the adders hide behind while
 * the next source's are on their way. Shorter turns lose a third where memory
 * is the limit, longer ones a fifth. Prefetching by hand only lost. */

enum {
	TILE = 128,
	STREAM_FLOATS = 1 << 19, /* a result of 2 MiB: the caller would not find it in a second-level cache */
	LINE_FLOATS = CACHELINE / sizeof(float)
};

/* A place of a tile: of a source it moves along with the tiles. */
typedef struct {
	float *base;
	int64_t moves; /* 1 or 0 */
} place;

typedef struct {
	place out;
	int64_t first, count; /* of the operands */
	int pairs;	      /* (a + b) + (c + d) instead of ((a + b) + c) + d */
} step;

typedef struct {
	step *steps;
	place *operands; /* of all steps behind one another */
	place *x;	 /* by source: where it lies now, base NULL absent */
	float *spare;	 /* places between steps */
	float **unused;	 /* of those, free again */
	int64_t nsteps, noperands, nspare, nunused;
	int is_tree;
	void *memory;
} program;

static inline int same(place a, place b)
{
	return a.base == b.base;
}

/* A tree never looks at a source again that was merged away, nor merges into it. */
static int is_tree(const psrt_merge *merges, int64_t nmerges, char *gone, int64_t n)
{
	memset(gone, 0, n);
	for (int64_t k = 0; k < nmerges; k++) {
		if (gone[merges[k].src] || gone[merges[k].dst])
			return 0;
		gone[merges[k].src] = 1;
	}
	return 1;
}

static int make_program(program *p, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	size_t most = nmerges < n ? nmerges : n; /* places: one a destination */
	size_t sizes[] = {most * TILE * sizeof *p->spare, (nmerges + 1) * sizeof *p->steps, (2 * nmerges + 1) * sizeof *p->operands,
			  n * sizeof *p->x, most * sizeof *p->unused, n};
	size_t all = 0;
	for (int i = 0; i < 6; i++)
		all += sizes[i] = (sizes[i] + CACHELINE - 1) / CACHELINE * CACHELINE;
	char *m = aligned_alloc(CACHELINE, all + CACHELINE);
	if (!m)
		return 0;
	*p = (program){.memory = m};
	p->spare = (float *)m;
	p->steps = (step *)(m += sizes[0]);
	p->operands = (place *)(m += sizes[1]);
	p->x = (place *)(m += sizes[2]);
	p->unused = (float **)(m += sizes[3]);
	p->is_tree = is_tree(merges, nmerges, m + sizes[4], n);
	for (int64_t i = 0; i < n; i++)
		p->x[i] = (place){(float *)srcs[i].data, 1};
	return 1;
}

static void begin_step(program *p, place out, place first)
{
	p->steps[p->nsteps++] = (step){out, p->noperands, 1, 0};
	p->operands[p->noperands++] = first;
}

static place spare_place(program *p)
{
	if (p->nunused)
		return (place){p->unused[--p->nunused], 0};
	return (place){p->spare + TILE * p->nspare++, 0};
}

static void merge_tree(program *p, place *d, place s)
{
	if (!d->base) {
		*d = s;
		return;
	}
	if (d->moves || !p->nsteps || !same(p->steps[p->nsteps - 1].out, *d)) {
		place out = d->moves ? spare_place(p) : *d;
		begin_step(p, out, *d);
		*d = out;
	}
	p->operands[p->noperands++] = s;
	p->steps[p->nsteps - 1].count++;
	if (!s.moves)
		p->unused[p->nunused++] = s.base; /* read by this step, written by later ones */
}

/* In any list a source may be merged twice, so places are not shared. */
static void merge_list(program *p, place *d, place s)
{
	place out = d->moves || !d->base ? spare_place(p) : *d;
	begin_step(p, out, d->base ? *d : s);
	if (d->base) {
		p->operands[p->noperands++] = s;
		p->steps[p->nsteps - 1].count++;
	}
	*d = out;
}

/* Makes p = a + b; q = c + d; p += q one step, as q is not used again. */
static void pair_up(program *p)
{
	int64_t to = 0;
	for (int64_t i = 0; i < p->nsteps; i++) {
		p->steps[to++] = p->steps[i];
		if (to < 3)
			continue;
		step *s = p->steps + to - 3;
		const place *x = p->operands + s[2].first;
		if (s[0].count == 2 && s[1].count == 2 && s[2].count == 2 && !s[0].pairs && !s[1].pairs && !s[2].pairs &&
		    s[1].first == s[0].first + 2 && same(x[0], s[0].out) && same(x[1], s[1].out)) {
			*s = (step){s[2].out, s[0].first, 4, 1};
			to -= 2;
		}
	}
	p->nsteps = to;
}

/* Leaves no step where source 0 is absent. */
static void compile(program *p, float *dst, const psrt_merge *merges, int64_t nmerges)
{
	for (int64_t k = 0; k < nmerges; k++) {
		place *d = p->x + merges[k].dst, s = p->x[merges[k].src];
		if (!s.base)
			continue;
		if (p->is_tree)
			merge_tree(p, d, s);
		else
			merge_list(p, d, s);
	}
	if (p->is_tree)
		pair_up(p);
	place root = p->x[0], out = {dst, 1};
	if (!root.base) {
		p->nsteps = 0;
		return;
	}
	if (p->is_tree && !root.moves)
		for (int64_t i = p->nsteps; i-- > 0;)
			if (same(p->steps[i].out, root)) { /* the root's last step: nobody reads it after */
				p->steps[i].out = out;
				return;
			}
	begin_step(p, out, root);
}

static inline float *tile_of(place w, int64_t at)
{
	return w.base + at * w.moves;
}

typedef float lanes __attribute__((vector_size(REGISTER)));

#define WIDE 8 /* adders in flight, and registers that sum */
#define EACH _Pragma("GCC unroll 8") for (int r = 0; r < WIDE; r++)

/* A whole tile, WIDE registers at a time. */
static inline void run_step(const place *x, int64_t count, float *out, int64_t at, int stream)
{
	const int64_t floats = REGISTER / sizeof(float);
	for (int64_t h = 0; h < TILE; h += floats * WIDE) {
		lanes sum[WIDE], y;
		const float *a = tile_of(x[0], at) + h;
		EACH memcpy(&sum[r], a + floats * r, sizeof y);
		for (int64_t i = 1; i < count; i++) {
			a = tile_of(x[i], at) + h;
			EACH {
				memcpy(&y, a + floats * r, sizeof y);
				sum[r] += y;
			}
		}
		if (stream)
			EACH STREAM(out + h + floats * r, sum[r]);
		else
			EACH memcpy(out + h + floats * r, &sum[r], sizeof y);
	}
}

#define HALF 4
#define EACH_HALF _Pragma("GCC unroll 4") for (int r = 0; r < HALF; r++)

/* The same of two pairs: what is between them stays in registers. */
static inline void run_pairs(const place *x, float *out, int64_t at, int stream)
{
	const int64_t floats = REGISTER / sizeof(float);
	const float *a = tile_of(x[0], at), *b = tile_of(x[1], at), *c = tile_of(x[2], at), *d = tile_of(x[3], at);
	for (int64_t h = 0; h < TILE; h += floats * HALF) {
		lanes sum[HALF], other, y;
		EACH_HALF memcpy(&sum[r], a + h + floats * r, sizeof y);
		EACH_HALF {
			memcpy(&y, b + h + floats * r, sizeof y);
			sum[r] += y;
		}
		EACH_HALF {
			memcpy(&other, c + h + floats * r, sizeof y);
			memcpy(&y, d + h + floats * r, sizeof y);
			other += y;
			sum[r] += other;
		}
		if (stream)
			EACH_HALF STREAM(out + h + floats * r, sum[r]);
		else
			EACH_HALF memcpy(out + h + floats * r, &sum[r], sizeof y);
	}
}

static void short_pairs(const place *x, float *out, int64_t at, int64_t len)
{
	const float *a = tile_of(x[0], at), *b = tile_of(x[1], at), *c = tile_of(x[2], at), *d = tile_of(x[3], at);
	for (int64_t j = 0; j < len; j++)
		out[j] = (a[j] + b[j]) + (c[j] + d[j]);
}

static void run_short(const place *x, int64_t count, float *out, int64_t at, int64_t len)
{
	int64_t j = 0;
	v16 sum, y;
	for (; j + 16 <= len; j += 16) {
		memcpy(&sum, tile_of(x[0], at) + j, sizeof sum);
		for (int64_t i = 1; i < count; i++) {
			memcpy(&y, tile_of(x[i], at) + j, sizeof y);
			sum += y;
		}
		memcpy(out + j, &sum, sizeof sum);
	}
	for (; j < len; j++) {
		float one = tile_of(x[0], at)[j];
		for (int64_t i = 1; i < count; i++)
			one += tile_of(x[i], at)[j];
		out[j] = one;
	}
}

static void run(const program *p, float *dst, int64_t len)
{
	int stream = len >= STREAM_FLOATS;
	for (int64_t i = 0; i < p->nsteps; i++) /* a result in place of a source is in the cache anyway */
		for (int64_t k = 0; k < p->steps[i].count; k++)
			if (p->operands[p->steps[i].first + k].base == dst)
				stream = 0;
	int64_t part = 0;
	if (stream) /* what is streamed must begin at a line */
		part = (LINE_FLOATS - (uintptr_t)dst / sizeof *dst % LINE_FLOATS) % LINE_FLOATS;
	if (!part)
		part = len < TILE ? len : TILE;
	for (int64_t at = 0; at < len; at += part, part = len - at < TILE ? len - at : TILE)
		for (const step *s = p->steps; s < p->steps + p->nsteps; s++) {
			const place *x = p->operands + s->first;
			float *out = tile_of(s->out, at);
			int past = stream && s->out.moves;
			if (part < TILE && s->pairs)
				short_pairs(x, out, at, part);
			else if (part < TILE)
				run_short(x, s->count, out, at, part);
			else if (s->pairs)
				run_pairs(x, out, at, past);
			else
				run_step(x, s->count, out, at, past);
		}
	if (stream)
		STREAM_END();
}

int64_t NAME(treesum)(float *dst, int64_t len, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	program p;
	if (!make_program(&p, srcs, n, merges, nmerges))
		return PSRT_NOMEM;
	compile(&p, dst, merges, nmerges);
	if (p.nsteps)
		run(&p, dst, len);
	else
		memset(dst, 0, len * sizeof *dst);
	free(p.memory);
	return PSRT_OK;
}

int64_t NAME(sum)(float *dst, int64_t len, const psrt_source *srcs, int64_t n)
{
	place *x = malloc(n * sizeof *x);
	if (!x)
		return PSRT_NOMEM;
	for (int64_t i = 0; i < n; i++)
		x[i] = (place){(float *)srcs[i].data, 1};
	step s = {{dst, 1}, 0, n, 0};
	program p = {.steps = &s, .operands = x, .nsteps = 1};
	run(&p, dst, len);
	free(x);
	return PSRT_OK;
}

/* Every bit read counts for the result, or the compiler would not read it. */
float NAME(scan)(const float *src, int64_t len)
{
	const int64_t floats = REGISTER / sizeof(float);
	lanes sum[WIDE] = {0}, y;
	int64_t i = 0;
	float all = 0;
	for (; i + floats * WIDE <= len; i += floats * WIDE)
		EACH {
			memcpy(&y, src + i + floats * r, sizeof y);
			sum[r] += y;
		}
	for (; i < len; i++)
		all += src[i];
	EACH for (int64_t j = 0; j < floats; j++) all += sum[r][j];
	return all;
}
