#include "index.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GROUP = 32, NO_ROW = 0xffffffffu };

typedef struct {
	const uintptr_t *segs[2];
} tables;

static inline psrt_bucket *bucket(const psrt_index *x, const tables *t, int which, uint64_t b)
{
	return (psrt_bucket *)t->segs[which][b >> x->seg_shift] + (b & (((uint64_t)1 << x->seg_shift) - 1));
}

static inline uint64_t home(const psrt_index *x, int which, uint64_t hash)
{
	return (uint64_t)(((unsigned __int128)hash * x->homes[which]) >> 64);
}

/* Homes behind the sweep have moved. */
static inline int table_of(const psrt_index *x, uint64_t hash)
{
	return x->homes[1] && home(x, 0, hash) < x->swept;
}

/* A key's place: slot i of bucket p, which is null where the key is not. */
typedef struct {
	psrt_bucket *p;
	int i;
} place;

static inline place place_in(const psrt_index *x, const tables *t, int which, uint64_t key, uint64_t hash)
{
	for (uint64_t b = home(x, which, hash); b < x->buckets[which]; b++) {
		psrt_bucket *p = bucket(x, t, which, b);
		uint32_t hit = 0;
		for (int i = 0; i < PSRT_SLOTS; i++)
			hit |= (uint32_t)(p->key[i] == key) << i;
		hit &= p->meta;
		if (hit)
			return (place){p, __builtin_ctz(hit)};
		if (!(p->meta & PSRT_PASSED))
			break;
	}
	return (place){0, 0};
}

static inline place place_of(const psrt_index *x, const tables *t, uint64_t key, uint64_t hash)
{
	int which = table_of(x, hash);
	place at = place_in(x, t, which, key, hash);
	if (!at.p && x->halfway && which == 0 && home(x, 0, hash) == x->swept)
		at = place_in(x, t, 1, key, hash);
	return at;
}

static inline uint32_t find(const psrt_index *x, const tables *t, uint64_t key, uint64_t hash)
{
	place at = place_of(x, t, key, hash);
	return at.p ? at.p->row[at.i] : NO_ROW;
}

/* Takes the first free slot from the key's home on; 0 when the buckets end,
 * with nothing changed but marks that are always allowed. */
static inline int insert(const psrt_index *x, const tables *t, int which, uint64_t key, uint64_t hash, uint32_t row)
{
	for (uint64_t b = home(x, which, hash); b < x->buckets[which]; b++) {
		psrt_bucket *p = bucket(x, t, which, b);
		uint32_t free = ~p->meta & PSRT_TAKEN;
		if (!free) {
			p->meta |= PSRT_PASSED;
			continue;
		}
		int i = __builtin_ctz(free);
		p->key[i] = key;
		p->row[i] = row;
		p->meta |= 1u << i;
		return 1;
	}
	return 0;
}

/* Moves all keys of one home, which lie in the home and in the buckets after it
 * as far as those were passed. */
static int move_home(psrt_index *x, const tables *t)
{
	uint64_t first = x->swept;
	for (uint64_t b = first; b < x->buckets[0]; b++) {
		psrt_bucket *p = bucket(x, t, 0, b);
		for (uint32_t taken = p->meta & PSRT_TAKEN; taken; taken &= taken - 1) {
			int i = __builtin_ctz(taken);
			uint64_t hash = psrt_mix(p->key[i] ^ x->seed);
			if (home(x, 0, hash) != first)
				continue;
			if (!insert(x, t, 1, p->key[i], hash, p->row[i])) {
				x->halfway = 1;
				return 0;
			}
			p->meta &= ~(1u << i);
		}
		if (!(p->meta & PSRT_PASSED))
			break;
	}
	if (first < x->buckets[0]) /* else no key ever came there */
		bucket(x, t, 0, first)->meta = 0; /* its own keys are gone, earlier ones too: clean for its next use */
	x->halfway = 0;
	x->swept++;
	return 1;
}

static int32_t sweep(psrt_index *x, const tables *t, int64_t homes)
{
	for (; homes > 0 && x->homes[1] && x->swept < x->homes[0]; homes--)
		if (!move_home(x, t))
			return PSRT_NEED_NEW;
	return PSRT_DONE;
}

int32_t psrt_index_sweep(psrt_index *x, const uintptr_t *old, const uintptr_t *new, int64_t homes)
{
	tables t = {{old, new}};
	return sweep(x, &t, homes);
}

/* The group's home buckets are fetched, to be written, before its first key is
 * looked up. */
static inline void prefetch_group(const psrt_index *x, const tables *t, const uint64_t *keys, int64_t n, uint64_t *hash)
{
	for (int64_t i = 0; i < n; i++) {
		hash[i] = psrt_mix(keys[i] ^ x->seed);
		int which = table_of(x, hash[i]);
		uint64_t b = home(x, which, hash[i]);
		if (b >= x->buckets[which])
			continue;
		__builtin_prefetch(bucket(x, t, which, b), 1);
	}
}

#define LEVEL portable
#define MATCH(p, k) ((uint32_t)((p)->key[0] == (k)) | (uint32_t)((p)->key[1] == (k)) << 1 | (uint32_t)((p)->key[2] == (k)) << 2 | \
	(uint32_t)((p)->key[3] == (k)) << 3 | (uint32_t)((p)->key[4] == (k)) << 4)
#include "find_body.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,bmi,bmi2")
/* The three words behind the keys are compared too; meta, which is asked
 * besides, has no bits for them. */
#define LEVEL avx512
#define MATCH(p, k) ((uint32_t)_mm512_cmpeq_epi64_mask(_mm512_load_si512(p), _mm512_set1_epi64((long long)(k))) & PSRT_TAKEN)
#include "find_body.h"
#pragma GCC pop_options
#endif

void psrt_index_find(const psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, uint32_t *rows, int32_t portable)
{
	tables t = {{old, new}};
#if defined(__x86_64__)
	if (!portable && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2")) {
		find_all_avx512(x, &t, keys, n, rows);
		return;
	}
#endif
	(void)portable;
	find_all_portable(x, &t, keys, n, rows);
}

/* Four of a bucket's five slots: 80 %. */
static inline int is_full(const psrt_index *x)
{
	return x->count >= x->homes[!!x->homes[1]] * 4;
}

/* So many deleted keys that their marks make chains long: sweep them away. */
static inline int is_stale(const psrt_index *x)
{
	return !x->homes[1] && x->deleted >= x->homes[0];
}

/* Inserts a key that is not there. */
static int32_t add(psrt_index *x, const tables *t, uint64_t key, uint64_t hash, uint32_t row)
{
	if (x->homes[1]) {
		int32_t status = sweep(x, t, PSRT_SWEEP);
		if (status != PSRT_DONE)
			return status;
	}
	if (is_full(x) || is_stale(x) || (x->homes[1] && x->swept == x->homes[0]))
		return PSRT_NEED_GROWTH;
	int which = table_of(x, hash);
	if (!insert(x, t, which, key, hash, row))
		return which ? PSRT_NEED_NEW : PSRT_NEED_OLD;
	x->count++;
	return PSRT_DONE;
}

static int32_t create(psrt_index *x, const tables *t, uint64_t key, uint64_t hash, uint32_t *row)
{
	if (x->next_row >= x->row_limit)
		return PSRT_NEED_ROWS;
	int32_t status = add(x, t, key, hash, (uint32_t)x->next_row);
	if (status == PSRT_DONE)
		*row = (uint32_t)x->next_row++;
	return status;
}

int32_t psrt_index_upsert(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, uint32_t *rows, uint64_t *fresh, psrt_upsert_result *result)
{
	tables t = {{old, new}};
	uint64_t hash[2][GROUP];
	int64_t created = 0;
	int now = 0;
	*result = (psrt_upsert_result){0, 0, PSRT_DONE};
	prefetch_group(x, &t, keys, n < GROUP ? n : GROUP, hash[0]);
	for (int64_t at = 0; at < n; at += GROUP, now = !now) {
		int64_t group = n - at < GROUP ? n - at : GROUP, left = n - at - group;
		prefetch_group(x, &t, keys + at + group, left < GROUP ? left : GROUP, hash[!now]);
		for (int64_t i = 0; i < group; i++) {
			uint32_t row = find(x, &t, keys[at + i], hash[now][i]);
			if (row == NO_ROW) {
				int32_t status = create(x, &t, keys[at + i], hash[now][i], &row);
				if (status != PSRT_DONE) {
					*result = (psrt_upsert_result){at + i, created, status};
					return status;
				}
				fresh[created++] = keys[at + i];
			}
			rows[at + i] = row;
		}
	}
	*result = (psrt_upsert_result){n, created, PSRT_DONE};
	return PSRT_DONE;
}

/* The hashes of keys at .. at + GROUP, their home buckets on the way. */
static inline int64_t group_at(const psrt_index *x, const tables *t, const uint64_t *keys, int64_t at, int64_t n, uint64_t *hash)
{
	int64_t group = n - at < GROUP ? n - at : GROUP;
	prefetch_group(x, t, keys + at, group, hash);
	return group;
}

void psrt_index_set(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, const uint32_t *rows, uint32_t *before, psrt_upsert_result *result)
{
	tables t = {{old, new}};
	uint64_t hash[2][GROUP];
	int64_t created = 0;
	int now = 0;
	int64_t group = group_at(x, &t, keys, 0, n, hash[0]);
	for (int64_t at = 0, next; at < n; at += group, group = next, now = !now) {
		next = group_at(x, &t, keys, at + group, n, hash[!now]);
		for (int64_t i = 0; i < group; i++) {
			place found = place_of(x, &t, keys[at + i], hash[now][i]);
			if (before)
				before[at + i] = found.p ? found.p->row[found.i] : NO_ROW;
			if (found.p) {
				found.p->row[found.i] = rows[at + i];
				continue;
			}
			int32_t status = add(x, &t, keys[at + i], hash[now][i], rows[at + i]);
			if (status != PSRT_DONE) {
				*result = (psrt_upsert_result){at + i, created, status};
				return;
			}
			created++;
		}
	}
	*result = (psrt_upsert_result){n, created, PSRT_DONE};
}

int64_t psrt_index_replace(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n, const uint32_t *rows)
{
	tables t = {{old, new}};
	uint64_t hash[GROUP];
	int64_t replaced = 0;
	for (int64_t at = 0, group; at < n; at += group) {
		group = group_at(x, &t, keys, at, n, hash);
		for (int64_t i = 0; i < group; i++) {
			place found = place_of(x, &t, keys[at + i], hash[i]);
			if (found.p) {
				found.p->row[found.i] = rows[at + i];
				replaced++;
			}
		}
	}
	return replaced;
}

int64_t psrt_index_delete(psrt_index *x, const uintptr_t *old, const uintptr_t *new, const uint64_t *keys, int64_t n)
{
	tables t = {{old, new}};
	uint64_t hash[GROUP];
	int64_t deleted = 0;
	for (int64_t at = 0, group; at < n; at += group) {
		group = group_at(x, &t, keys, at, n, hash);
		for (int64_t i = 0; i < group; i++) {
			place found = place_of(x, &t, keys[at + i], hash[i]);
			if (found.p) {
				found.p->meta &= ~(1u << found.i);
				deleted++;
			}
		}
	}
	x->count -= (uint64_t)deleted;
	x->deleted += (uint64_t)deleted;
	return deleted;
}
