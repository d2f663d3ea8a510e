/* Rows of two parts, the first weight and the vector behind it, with counters in
 * words at the row's end; part of body.h. The words are written by these kernels
 * and by accessor's settling, by nothing else. */

static inline double counter_at(const float *words)
{
	double d;
	memcpy(&d, words, sizeof d);
	return d;
}

static inline void put_counter(float *words, double d)
{
	memcpy(words, &d, sizeof d);
}

static inline uint32_t word_at(const float *words)
{
	uint32_t w;
	memcpy(&w, words, sizeof w);
	return w;
}

static inline void put_word(float *words, uint32_t w)
{
	memcpy(words, &w, sizeof w);
}

static inline void prefetch_words(const float *words, int to_write)
{
	if (to_write)
		__builtin_prefetch(words, 1);
	else
		__builtin_prefetch(words);
}

int64_t NAME(lagging)(int64_t life, uint32_t seq, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, uint32_t *out)
{
	const int64_t ahead = 16;
	int64_t found = 0;
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < rows->count)
			prefetch_words(row_at(bases, rows, ids[i + ahead]) + life + PSRT_SEQ, 0);
		if (i >= 0 && ids[i] < rows->count && word_at(row_at(bases, rows, ids[i]) + life + PSRT_SEQ) != seq)
			out[found++] = (uint32_t)i;
	}
	return found;
}

void NAME(gather_parts)(const psrt_parts *parts, float *dst, int64_t step, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n)
{
	const int64_t dim = parts->dim, lines = lines_of(dim), ahead = ahead_of(lines);
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < rows->count) {
			const float *p = row_at(bases, rows, ids[i + ahead]);
			prefetch_words(p + parts->life + PSRT_SLOT, 0);
			for (int64_t l = 0; l < lines; l++)
				__builtin_prefetch((const char *)p + l * CACHELINE);
		}
		if (i < 0)
			continue;
		float *d = dst + i * step;
		int64_t live = 0; /* weights that show */
		if (ids[i] < rows->count) {
			const float *w = row_at(bases, rows, ids[i]);
			uint32_t flags = word_at(w + parts->life + PSRT_SLOT);
			live = !(flags & PSRT_ADMITTED) ? 0 : flags & PSRT_EXTENDED ? dim : 1;
			copy_floats(d, w, live);
		}
		memset(d + live, 0, (size_t)(dim - live) * sizeof *d);
	}
}

/* Also what is no number goes to the lower bound. */
static inline void clamp_floats(float *w, int64_t n, float lo, float hi)
{
	for (int64_t i = 0; i < n; i++) {
		float x = w[i] >= lo ? w[i] : lo;
		w[i] = x <= hi ? x : hi;
	}
}

static inline __attribute__((always_inline)) void update_part(const psrt_parts *p, int part, float *w, float *s, const float *g, int64_t n)
{
	update_row(&p->rule[part], w, w, s, g, n);
	if (p->bounded[part])
		clamp_floats(w, n, p->lo[part], p->hi[part]);
}

static inline double score_of(const psrt_parts *p, double show, double click)
{
	return p->nonclk * (show - click) + p->click * click;
}

/* Whether slot, show and click are what they may be. */
static inline int counts_ok(const float *push)
{
	return push[0] >= 0.0f && push[0] < 16777216.0f && push[1] >= 0.0f && push[2] >= 0.0f;
}

/* Returns 0 where the row stays as it was: divided by a show below 1 a finite gradient
 * may not be finite. */
static inline __attribute__((always_inline)) int push_row(const psrt_parts *p, float *w, const float *push, float *scaled)
{
	const int64_t dim = p->dim;
	float *life = w + p->life;
	uint32_t flags = word_at(life + PSRT_SLOT) & 0xff;
	const int64_t live = !(flags & PSRT_ADMITTED) ? 0 : flags & PSRT_EXTENDED ? dim : 1;
	const float *g = push + PSRT_COUNTS;
	if (live && p->show_scale && push[1] > 0.0f && push[1] != 1.0f) {
		for (int64_t i = 0; i < live; i++)
			scaled[i] = g[i] / push[1];
		if (push[1] < 1.0f && !is_finite_row(scaled, live))
			return 0;
		g = scaled;
	}
	const double shows = push[1], clicks = push[2];
	const double show = counter_at(life + PSRT_SHOW) + shows, click = counter_at(life + PSRT_CLICK) + clicks;
	put_counter(life + PSRT_SHOW, show);
	put_counter(life + PSRT_CLICK, click);
	put_counter(life + PSRT_DELTA, counter_at(life + PSRT_DELTA) + score_of(p, shows, clicks));
	put_word(life + PSRT_UNSEEN, 0);
	if (live)
		update_part(p, 0, w, w + dim, g, 1);
	if (live > 1)
		update_part(p, 1, w + 1, w + p->vector_state, g + 1, dim - 1);
	const double score = score_of(p, show, click);
	if (p->admit_by == PSRT_ADMIT_ALWAYS || (p->admit_by == PSRT_ADMIT_SHOW ? show : score) >= p->admit_at)
		flags |= PSRT_ADMITTED;
	if ((flags & PSRT_ADMITTED) && score >= p->extend_at)
		flags |= PSRT_EXTENDED; /* what the vector begins with lies there since the row's birth */
	put_word(life + PSRT_SLOT, (uint32_t)push[0] << 8 | flags);
	return 1;
}

int64_t NAME(update_parts)(const psrt_parts *parts, const uintptr_t *bases, const psrt_rows *rows, const uint32_t *ids, int64_t n, const float *pushed)
{
	const psrt_parts p = *parts;
	const int64_t lines = lines_of(rows->stride), ahead = ahead_of(lines), width = PSRT_COUNTS + p.dim;
	float scaled[PSRT_MAX_DIM];
	int64_t refused = 0;
	for (int64_t i = -ahead; i < n; i++) {
		if (i + ahead < n && ids[i + ahead] < rows->count) {
			const char *at = (const char *)row_at(bases, rows, ids[i + ahead]);
			for (int64_t l = 0; l < lines; l++)
				__builtin_prefetch(at + l * CACHELINE, 1);
		}
		if (i < 0 || ids[i] == UINT32_MAX)
			continue; /* a key that was not admitted */
		const float *push = pushed + i * width;
		if (ids[i] >= rows->count || !is_finite_row(push, width) || !counts_ok(push)) {
			refused++;
			continue;
		}
		float *w = row_at(bases, rows, ids[i]);
		if (word_at(w + p.life + PSRT_SEQ) != p.seq) {
			refused++;
			continue;
		}
		refused += !push_row(&p, w, push, scaled);
	}
	return refused;
}
