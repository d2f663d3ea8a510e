/* Rows in a GPU's memory: gathered into the batch's matrix, set, read back, and
 * changed in place by the optimizers. LANES threads a row; one batch names a row
 * once. All structures are those of ptx.go. */
#include "rules.h"

/* Row i is at rows + i * stride; ids beyond count are no rows. flat has the batch: n
 * times width floats, each time step floats further on. */
struct batch {
	float *rows, *flat;
	u32 *ids;
	u64 stride, count, n, width, step;
};

struct update {
	struct batch b;
	struct rule rule;
	u64 *refused;
};

DEVICE void gather_row(const struct batch *b, u64 i, u64 id)
{
	float *to = b->flat + i * b->step;
	if (id < b->count)
		copy(to, b->rows + id * b->stride, (i64)b->width);
	else
		zero(to, (i64)b->width);
}

/* flat[i] = the first width floats of row ids[i], zeros where that is no row. */
KERNEL psrt_gather_rows(struct batch b)
{
	u64 i = row_index();
	if (i >= b.n || IDLE)
		return;
	gather_row(&b, i, b.ids[i]);
}

/* Row ids[i] = flat[i]. */
KERNEL psrt_put_rows(struct batch b)
{
	u64 i = row_index();
	if (i >= b.n || IDLE)
		return;
	u64 id = b.ids[i];
	if (id < b.count)
		copy(b.rows + id * b.stride, b.flat + i * b.step, (i64)b.width);
}

/* Row ids[i] by gradient flat[i]; what is not finite, or no row, is refused and
 * counted. */
KERNEL psrt_update_rows(struct update u)
{
	u64 i = row_index();
	if (i >= u.b.n || IDLE)
		return;
	u64 id = u.b.ids[i];
	const struct grad g = { u.b.flat + i * u.b.step, 1.0f };
	if (id >= u.b.count || refuses_whole(g.at, (i64)u.b.width)) {
		count_one(u.refused);
		return;
	}
	float *w = u.b.rows + id * u.b.stride;
	if (!update_quads(&u.rule, w, w + u.b.width, g.at, (i64)u.b.width))
		update_part(&u.rule, w, w + u.b.width, &g, (i64)u.b.width);
}

#include "parts.h"
#include "find.h"
#include "dense.h"
