/* Rows of two parts, the first weight and the vector behind it, with counters in
 * words at the row's end: what csrc/kernels/body_parts.h does, with the same bits.
 * Words are read by all lanes of a row before the first lane writes them. */

struct parts {
	struct rule rule[2];
	float lo[2], hi[2];
	int bounded[2];
	int dim, vector_state, life;
	u32 seq;
	int admit_by, show_scale;
	double nonclk, click, extend_at, admit_at;
};

enum { ADMIT_ALWAYS, ADMIT_SHOW, ADMIT_SCORE };
enum { SHOW = 0, CLICK = 2, DELTA = 4, SEQ = 8, UNSEEN = 9, SLOT = 10 };
enum { ADMITTED = 1, EXTENDED = 2, COUNTS = 3 };

struct parts_update {
	struct batch b;
	struct parts parts;
	u64 *refused;
};

struct parts_gather {
	struct batch b;
	i64 life;
};

DEVICE u32 word_at(const float *p)
{
	union { float f; u32 u; } x;
	x.f = *p;
	return x.u;
}

DEVICE void put_word(float *p, u32 v)
{
	union { float f; u32 u; } x;
	x.u = v;
	*p = x.f;
}

/* Rows are aligned for float4, their words for nothing. */
DEVICE double counter_at(const float *p)
{
	union { double d; u32 u[2]; } x;
	x.u[0] = word_at(p);
	x.u[1] = word_at(p + 1);
	return x.d;
}

DEVICE void put_counter(float *p, double v)
{
	union { double d; u32 u[2]; } x;
	x.d = v;
	put_word(p, x.u[0]);
	put_word(p + 1, x.u[1]);
}

/* The weights that show: none of a row that is not admitted, the first of one that
 * is not extended; zeros for the others. */
DEVICE void gather_part(const struct batch *b, i64 life, u64 i, u64 id)
{
	float *to = b->flat + i * b->step;
	i64 live = 0;
	if (id < b->count) {
		u32 flags = word_at(b->rows + id * b->stride + life + SLOT);
		live = !(flags & ADMITTED) ? 0 : flags & EXTENDED ? (i64)b->width : 1;
	}
	if (live == (i64)b->width) {
		copy(to, b->rows + id * b->stride, live);
		return;
	}
	zero(to, (i64)b->width);
	if (live && first_lane() == 0) /* whose element it was to make 0 */
		to[0] = b->rows[id * b->stride];
}

KERNEL psrt_gather_parts(struct parts_gather u)
{
	u64 i = row_index();
	if (i >= u.b.n || IDLE)
		return;
	gather_part(&u.b, u.life, i, u.b.ids[i]);
}

DEVICE double score_of(const struct parts *p, double show, double click)
{
	return p->nonclk * (show - click) + p->click * click;
}

DEVICE void update_bounded(const struct parts *p, int part, float *w, float *s, const struct grad *g, i64 n)
{
	update_part(&p->rule[part], w, s, g, n);
	if (!p->bounded[part])
		return;
	for EACH(i, n) { /* what is no number goes to the lower bound, too */
		float x = w[i] >= p->lo[part] ? w[i] : p->lo[part];
		w[i] = x <= p->hi[part] ? x : p->hi[part];
	}
}

/* 0 where the row stays as it was: divided by a show below 1 a finite gradient may not
 * be finite. */
DEVICE int push_row(const struct parts *p, float *w, const float *push)
{
	i64 dim = p->dim;
	float *life = w + p->life;
	u32 flags = word_at(life + SLOT) & 0xff;
	struct grad g = { push + COUNTS, p->show_scale && push[1] > 0.0f ? push[1] : 1.0f };
	i64 live = !(flags & ADMITTED) ? 0 : flags & EXTENDED ? dim : 1;
	if (g.by < 1.0f && refuses(&g, live))
		return 0;
	double shows = push[1], clicks = push[2];
	double show = counter_at(life + SHOW) + shows, click = counter_at(life + CLICK) + clicks;
	double delta = counter_at(life + DELTA) + score_of(p, shows, clicks);
	lanes_meet();
	if (live)
		update_bounded(p, 0, w, w + dim, &g, 1);
	if (live > 1) {
		g.at++;
		update_bounded(p, 1, w + 1, w + p->vector_state, &g, dim - 1);
	}
	double score = score_of(p, show, click);
	if (p->admit_by == ADMIT_ALWAYS || (p->admit_by == ADMIT_SHOW ? show : score) >= p->admit_at)
		flags |= ADMITTED;
	if ((flags & ADMITTED) && score >= p->extend_at)
		flags |= EXTENDED;
	if (first_lane() != 0)
		return 1;
	put_counter(life + SHOW, show);
	put_counter(life + CLICK, click);
	put_counter(life + DELTA, delta);
	put_word(life + UNSEEN, 0);
	put_word(life + SLOT, (u32)push[0] << 8 | flags);
	return 1;
}

/* Row ids[i] by push flat[i]: slot, show, click, and gradients. */
KERNEL psrt_update_parts(struct parts_update u)
{
	u64 i = row_index();
	if (i >= u.b.n || IDLE)
		return;
	u64 id = u.b.ids[i];
	if (id == 0xffffffffu) /* a key that was not admitted */
		return;
	const float *push = u.b.flat + i * u.b.step;
	const struct grad all = { push, 1.0f };
	if (id >= u.b.count || refuses(&all, (i64)u.b.width) ||
	    !(push[0] >= 0.0f && push[0] < 16777216.0f && push[1] >= 0.0f && push[2] >= 0.0f)) {
		count_one(u.refused);
		return;
	}
	float *w = u.b.rows + id * u.b.stride;
	if (word_at(w + u.parts.life + SEQ) != u.parts.seq) {
		count_one(u.refused);
		return;
	}
	if (!push_row(&u.parts, w, push))
		count_one(u.refused);
}
