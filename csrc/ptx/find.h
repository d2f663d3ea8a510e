/* Rows found by their keys and gathered in one go. The index is csrc/probe's Bounded:
 * a bucket is a cache line, read by the lanes of a row together. */

enum { SLOTS = 5, PASSED = 1 << SLOTS };

#define NO_ROW 0xffffffffu

struct bucket {
	u64 key[SLOTS];
	u32 row[SLOTS];
	u32 meta; /* bit i: slot i is taken; PASSED: a key went past */
};

struct find {
	struct batch b; /* ids is where what is found goes */
	const u64 *keys;
	const struct bucket *index;
	u64 seed, homes, buckets;
};

struct parts_find {
	struct find f;
	i64 life;
};

/* What each lane has of a bucket: a slot, and the marks. All is asked for at once, as a card
 * would wait for memory thrice otherwise; lanes beyond SLOTS read the first, in vain. */
struct seen {
	u64 key[OWN];
	u32 row[OWN], meta;
};

DEVICE int slot_of(int l) { return OWN > 1 ? l : first_lane(); }

DEVICE u64 home_of(const struct find *f, u64 key)
{
	return (u64)((unsigned __int128)mix(key ^ f->seed) * f->homes >> 64);
}

DEVICE void see(const struct find *f, u64 at, struct seen *s)
{
	const struct bucket *p = f->index + at;
	s->meta = p->meta;
	for EACH_LANE(l) {
		int slot = slot_of(l) < SLOTS ? slot_of(l) : 0;
		s->key[l] = p->key[slot];
		s->row[l] = p->row[slot];
	}
}

/* The row of a key whose home is at, and has been seen. */
DEVICE u32 find_row(const struct find *f, u64 key, u64 at, struct seen *s)
{
	for (;;) {
		u32 hit[OWN];
		for EACH_LANE(l) {
			int slot = slot_of(l) < SLOTS ? slot_of(l) : 0;
			int taken = (slot_of(l) < SLOTS) & (int)(s->meta >> slot) & (s->key[l] == key);
			hit[l] = taken ? s->row[l] : NO_ROW;
		}
		u32 row = least_lane(hit);
		if (row != NO_ROW || !(s->meta & PASSED) || ++at >= f->buckets)
			return row;
		see(f, at, s);
	}
}

DEVICE u32 find_ith(const struct find *f, u64 i, u64 key, u64 at, struct seen *s)
{
	u32 row = find_row(f, key, at, s);
	if (first_lane() == 0)
		f->b.ids[i] = row;
	return row;
}

/* Two rows, both asked for before one is written; quads of them. Rows of 64 floats are done in
 * one turn: to unroll the loop would take registers from all, and warps with them. */
DEVICE void copy_two(float *to, const float *from, float *to2, const float *from2, i64 quads)
{
	ROLLED
	for EACH(i, quads) {
		const union quad x = quad_at(from, i), y = quad_at(from2, i);
		put_quad(to, i, &x);
		put_quad(to2, i, &y);
	}
}

/* ids[i] = the row of keys[i], and psrt_gather_rows. The threads of a row do one of the second
 * half, too: of each they wait for key, bucket and row, one after another, and so a card has
 * twice as much on its way. Those of rows of the second half have nothing to do. */
KERNEL psrt_find_rows(struct find f)
{
	const struct batch *b = &f.b;
	const u64 i = row_index(), half = (b->n + 1) / 2, k = i + half;
	if (i >= half || IDLE)
		return;
	const int two = k < b->n;
	const u64 key = f.keys[i], key2 = f.keys[two ? k : i];
	const u64 at = home_of(&f, key), at2 = home_of(&f, key2);
	struct seen s, s2;
	see(&f, at, &s);
	see(&f, at2, &s2);
	const u64 row = find_ith(&f, i, key, at, &s);
	if (!two) {
		gather_row(b, i, row);
		return;
	}
	const u64 row2 = find_ith(&f, k, key2, at2, &s2);
	float *to = b->flat + i * b->step, *to2 = b->flat + k * b->step;
	const float *from = b->rows + row * b->stride, *from2 = b->rows + row2 * b->stride;
	if (row < b->count && row2 < b->count && in_quads((i64)b->width, (u64)to | (u64)to2 | (u64)from | (u64)from2)) {
		copy_two(to, from, to2, from2, (i64)b->width / 4);
		return;
	}
	gather_row(b, i, row);
	gather_row(b, k, row2);
}

/* ids[i] = the row of keys[i], and psrt_gather_parts. */
KERNEL psrt_find_parts(struct parts_find u)
{
	u64 i = row_index();
	if (i >= u.f.b.n || IDLE)
		return;
	const u64 key = u.f.keys[i], at = home_of(&u.f, key);
	struct seen s;
	see(&u.f, at, &s);
	gather_part(&u.f.b, u.life, i, find_ith(&u.f, i, key, at, &s));
}
