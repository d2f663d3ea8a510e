/* Sums of rows of many sources along a list of merges; part of body.h.
 *
 * Where every source is merged away at most once and not used afterwards (a
 * tree, the usual case), a row walks only the merges of the sources it has:
 * a set bit per merge whose source is present, taken in order. Other lists are
 * walked whole. */

static inline void add2(float *d, const float *a, const float *b, int64_t n)
{
	int64_t i = 0;
	v16 x, y;
	for (; i + 16 <= n; i += 16) {
		memcpy(&x, a + i, sizeof x);
		memcpy(&y, b + i, sizeof y);
		x += y;
		memcpy(d + i, &x, sizeof x);
	}
	for (; i < n; i++)
		d[i] = a[i] + b[i];
}

typedef struct {
	const psrt_merge *merges;
	int64_t n, nmerges, dim;
	int32_t *merge_of; /* by source: the merge that takes it away, -1 none */
	uint64_t *set;     /* one bit per merge: its source is present */
	const float **x;   /* by source: where it lies now, NULL absent */
	float *own;        /* by source: dim floats it may be changed in */
	int is_tree;
	int one_root; /* every source but 0 is merged away */
	void *memory;
} sum_plan;

static void free_plan(sum_plan *p)
{
	free(p->memory);
}

static int make_plan(sum_plan *p, int64_t dim, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	int64_t words = (nmerges + 63) / 64;
	size_t pad = (size_t)(dim + 15) / 16 * 16;
	size_t head = ((size_t)n * (sizeof *p->x + sizeof *p->merge_of) + words * sizeof *p->set + 63) / 64 * 64;
	char *m = aligned_alloc(64, (head + (size_t)n * pad * sizeof(float) + 63) / 64 * 64);
	if (!m)
		return 0;
	*p = (sum_plan){.merges = merges, .n = n, .nmerges = nmerges, .dim = pad, .is_tree = 1, .memory = m};
	memset(m, 0, head);
	p->x = (const float **)m;
	p->set = (uint64_t *)(p->x + n);
	p->merge_of = (int32_t *)(p->set + words);
	p->own = (float *)(m + head);
	for (int64_t i = 0; i < n; i++)
		p->merge_of[i] = -1;
	for (int64_t k = 0; k < nmerges; k++) {
		if (p->merge_of[merges[k].src] >= 0 || p->merge_of[merges[k].dst] >= 0)
			p->is_tree = 0;
		p->merge_of[merges[k].src] = k;
	}
	p->one_root = p->is_tree;
	for (int64_t i = 1; i < n; i++)
		if (p->merge_of[i] < 0)
			p->one_root = 0;
	return 1;
}

static inline void note_present(sum_plan *p, int64_t source, const float *at)
{
	int32_t k = p->merge_of[source];
	p->x[source] = at;
	if (k >= 0)
		p->set[k / 64] |= (uint64_t)1 << (k % 64);
}

/* Takes merge k of a tree. Source 0 is changed in the result's own place. */
static inline void tree_step(sum_plan *p, int64_t k, float *out, int64_t len)
{
	int32_t d = p->merges[k].dst, s = p->merges[k].src;
	if (!p->x[d]) {
		note_present(p, d, p->x[s]);
	} else {
		float *own = d == 0 ? out : p->own + d * p->dim;
		add2(own, p->x[d], p->x[s], len);
		p->x[d] = own;
	}
	p->x[s] = NULL;
}

static inline void list_step(sum_plan *p, int64_t k, int64_t len)
{
	int32_t d = p->merges[k].dst, s = p->merges[k].src;
	if (!p->x[s])
		return;
	float *own = p->own + d * p->dim;
	if (p->x[d])
		add2(own, p->x[d], p->x[s], len);
	else
		copy_floats(own, p->x[s], len);
	p->x[d] = own;
}

/* Merges what was noted, writes the result and forgets all sources. */
static inline void finish_row(sum_plan *p, float *out, int64_t len)
{
	if (p->is_tree) {
		for (int64_t w = 0; w * 64 < p->nmerges; w++)
			while (p->set[w]) {
				int64_t k = w * 64 + __builtin_ctzll(p->set[w]);
				p->set[w] &= p->set[w] - 1;
				tree_step(p, k, out, len);
			}
	} else {
		for (int64_t k = 0; k < p->nmerges; k++)
			list_step(p, k, len);
		memset(p->set, 0, (p->nmerges + 63) / 64 * sizeof *p->set);
	}
	if (!p->x[0])
		memset(out, 0, len * sizeof *out);
	else if (p->x[0] != out)
		copy_floats(out, p->x[0], len);
}

/* Sources that no merge takes away, and all of a list, are still noted. */
static inline void forget(sum_plan *p)
{
	if (p->one_root)
		p->x[0] = NULL;
	else
		memset(p->x, 0, p->n * sizeof *p->x);
}

enum { BLOCK = 16 }; /* rows whose sources are looked up and prefetched together: one line of an index */

int64_t NAME(treesum_rows)(float *dst, int64_t dim, int64_t rows, const psrt_source *srcs, int64_t n, const psrt_merge *merges, int64_t nmerges)
{
	sum_plan p;
	if (!make_plan(&p, dim, n, merges, nmerges))
		return PSRT_NOMEM;
	int32_t(*list)[BLOCK] = malloc((size_t)n * sizeof *list); /* list[j][r]: j-th present source of row r */
	if (!list) {
		free_plan(&p);
		return PSRT_NOMEM;
	}
	int64_t bad = PSRT_OK;
	for (int64_t u0 = 0; u0 < rows && bad == PSRT_OK; u0 += BLOCK) {
		int64_t block = rows - u0 < BLOCK ? rows - u0 : BLOCK, count[BLOCK] = {0};
		for (int64_t i = 0; i < n; i++) {
			const int32_t *at = (const int32_t *)srcs[i].index + u0;
			uint32_t have = 0; /* a bit per row: most rows lack most sources */
			for (int64_t r = 0; r < block; r++)
				have |= (uint32_t)(at[r] >= 0) << r;
			for (; have; have &= have - 1) {
				int r = __builtin_ctz(have);
				if (at[r] >= srcs[i].rows) {
					bad = i;
					continue;
				}
				list[count[r]++][r] = i;
				__builtin_prefetch((const float *)srcs[i].data + at[r] * dim);
			}
		}
		for (int64_t r = 0; r < block && bad == PSRT_OK; r++) {
			for (int64_t j = 0; j < count[r]; j++) {
				int32_t i = list[j][r];
				int64_t at = ((const int32_t *)srcs[i].index)[u0 + r];
				note_present(&p, i, (const float *)srcs[i].data + at * dim);
			}
			finish_row(&p, dst + (u0 + r) * dim, dim);
			forget(&p);
		}
	}
	free(list);
	free_plan(&p);
	return bad;
}

#include "body_vector.h"
