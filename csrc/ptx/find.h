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

DEVICE u32 find_row(const struct find *f, u64 key)
{
	u64 at = (u64)((unsigned __int128)mix(key ^ f->seed) * f->homes >> 64);
	for (; at < f->buckets; at++) {
		const struct bucket *p = f->index + at;
		u32 meta = p->meta, hit[OWN];
		for EACH_LANE(l) {
			int i = OWN > 1 ? l : first_lane(), slot = i < SLOTS ? i : 0;
			/* All asked for at once: a card would wait for memory thrice otherwise. */
			u64 at_slot = p->key[slot];
			u32 row = p->row[slot];
			int taken = (i < SLOTS) & (int)(meta >> slot) & (at_slot == key);
			hit[l] = taken ? row : NO_ROW;
		}
		u32 row = least_lane(hit);
		if (row != NO_ROW || !(meta & PASSED))
			return row;
	}
	return NO_ROW;
}

DEVICE u32 find_ith(const struct find *f, u64 i)
{
	u32 row = find_row(f, f->keys[i]);
	if (first_lane() == 0)
		f->b.ids[i] = row;
	return row;
}

/* ids[i] = the row of keys[i], and psrt_gather_rows. */
KERNEL psrt_find_rows(struct find f)
{
	u64 i = row_index();
	if (i >= f.b.n || IDLE)
		return;
	gather_row(&f.b, i, find_ith(&f, i));
}

/* ids[i] = the row of keys[i], and psrt_gather_parts. */
KERNEL psrt_find_parts(struct parts_find u)
{
	u64 i = row_index();
	if (i >= u.f.b.n || IDLE)
		return;
	gather_part(&u.f.b, u.life, i, find_ith(&u.f, i));
}
