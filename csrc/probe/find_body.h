/* psrt_index_find at one level of the machine: index.c includes this once for
 * each, with LEVEL its name and MATCH(bucket, key), a bit for each slot that
 * holds the key. */

#define NAMED2(a, b) a##_##b
#define NAMED1(a, b) NAMED2(a, b)
#define NAMED(a) NAMED1(a, LEVEL)

/* Fetches the home buckets of a group before its first key is looked up; NULL
 * where a home lies behind the table's end. */
static inline void NAMED(fetch)(const psrt_index *x, const tables *t, const uint64_t *keys, int64_t n, const psrt_bucket **homes)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t hash = psrt_mix(keys[i] ^ x->seed);
		int which = table_of(x, hash);
		uint64_t b = home(x, which, hash);
		homes[i] = b < x->buckets[which] ? bucket(x, t, which, b) : 0;
		__builtin_prefetch(homes[i]);
	}
}

/* A key's home, looked at; 1 when the key may be further on. */
static inline int NAMED(look)(const psrt_index *x, const tables *t, uint64_t key, const psrt_bucket *p, uint32_t *row)
{
	*row = NO_ROW;
	if (!p)
		return x->halfway;
	uint32_t hit = MATCH(p, key) & p->meta;
	if (hit) {
		*row = p->row[__builtin_ctz(hit)];
		return 0;
	}
	if (!(p->meta & PSRT_PASSED))
		return x->halfway;
	uint64_t hash = psrt_mix(key ^ x->seed);
	int which = table_of(x, hash);
	uint64_t b = home(x, which, hash) + 1;
	if (b < x->buckets[which])
		__builtin_prefetch(bucket(x, t, which, b));
	return 1;
}

static void NAMED(find_all)(const psrt_index *x, const tables *t, const uint64_t *keys, int64_t n, uint32_t *rows)
{
	const psrt_bucket *homes[2][GROUP];
	int now = 0;
	NAMED(fetch)(x, t, keys, n < GROUP ? n : GROUP, homes[0]);
	for (int64_t at = 0; at < n; at += GROUP, now = !now) {
		int64_t group = n - at < GROUP ? n - at : GROUP, left = n - at - group;
		NAMED(fetch)(x, t, keys + at + group, left < GROUP ? left : GROUP, homes[!now]);
		uint8_t later[GROUP];
		int64_t more = 0;
		for (int64_t i = 0; i < group; i++) {
			later[more] = (uint8_t)i;
			more += NAMED(look)(x, t, keys[at + i], homes[now][i], &rows[at + i]);
		}
		for (int64_t j = 0; j < more; j++) {
			int64_t i = later[j];
			rows[at + i] = find(x, t, keys[at + i], psrt_mix(keys[at + i] ^ x->seed));
		}
	}
}

#undef NAMED
#undef NAMED1
#undef NAMED2
#undef LEVEL
#undef MATCH
