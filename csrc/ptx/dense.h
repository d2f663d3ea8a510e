/* A model's dense layers: what csrc/nn and csrc/blas do for one leaf, with the same
 * operations in the same order. What they add up over examples is added in the order of
 * examples, within a row in LANES lanes. Kernels by columns have LANES of them a row of
 * threads, one a lane.
 *
 * psrt_product is the one with fused operations: a CPU's BLAS has them, too. */
#ifndef PSRT_DENSE_H
#define PSRT_DENSE_H

#include "device.h"

#define TILE_ROWS 4

/* c = op(a) op(b), and what c was where add says so. Element (i, l) of op(a) is
 * a[i * a_row + l * a_step], (l, j) of op(b) b[l * b_step + j * b_col]. Each element is a
 * chain of fused operations over ascending l, cut into pieces, whose sums are added: as
 * BLAS cuts it, by most and round. */
struct product {
	const float *a, *b;
	float *c;
	u64 m, n, k, a_row, a_step, b_step, b_col, most, round, add;
};

/* The others' argument; p is what each says. */
struct layer {
	u64 n, units; /* examples, floats of each */
	float *p[7];
	u64 key, first_row; /* of dropout */
	u32 drop;
	float keep, scale;
	u32 square; /* the loss */
};

/* The lane of element l of an OWN, the column of lane l of columns x. */
#define LANE(l) (OWN > 1 ? (u64)(l) : (u64)first_lane())
#define COLUMN(x, l) ((x) * LANES + LANE(l))

/* Kernels by columns ask for so many rows' elements before they use the first: what is added
 * is added in one chain, but memory need not be waited for at each link. */
#define AHEAD 8

/* does to all rows of column j, so many at a time, from row i on. */
#define DOWN(x, does, ...) do { \
	u64 i = 0; \
	for (; i + AHEAD <= (x)->n; i += AHEAD) \
		does(x, j, i, AHEAD, __VA_ARGS__); \
	for (; i < (x)->n; i++) \
		does(x, j, i, 1, __VA_ARGS__); \
} while (0)

/* The columns of this thread, of those of at. */
#define EACH_COLUMN(j, at, x) (u64 l_ = 0, j; l_ < OWN && (j = COLUMN(at, l_)) < (x).units; l_++)

DEVICE u64 piece_of(const struct product *p, u64 left)
{
	if (left >= 2 * p->most)
		return p->most;
	return left > p->most ? (left / 2 + p->round - 1) / p->round * p->round : left;
}

/* A piece of TILE_ROWS chains in each lane. */
DEVICE void chains(const struct product *p, const float *const *a, const float *b, u64 col, u64 from, u64 to, float (*sum)[OWN])
{
	for (u64 l = from; l < to; l++)
		for (int r = 0; r < TILE_ROWS; r++) {
			const float x = a[r][l * p->a_step];
			for EACH_LANE(j)
				sum[r][j] = FMA(x, b[l * p->b_step + LANE(j) * col], sum[r][j]);
		}
}

/* At the right edge lanes have no column of their own, and read the last. */
DEVICE void edge_chains(const struct product *p, const float *const *a, u64 first, u64 from, u64 to, float (*sum)[OWN])
{
	for (u64 l = from; l < to; l++)
		for EACH_LANE(j) {
			u64 at = first + LANE(j);
			const float y = p->b[l * p->b_step + (at < p->n ? at : p->n - 1) * p->b_col];
			for (int r = 0; r < TILE_ROWS; r++)
				sum[r][j] = FMA(a[r][l * p->a_step], y, sum[r][j]);
		}
}

KERNEL psrt_product(struct product p)
{
	u64 across = (p.n + LANES - 1) / LANES, row = row_index() / across * TILE_ROWS, col = row_index() % across * LANES;
	if (row >= p.m || IDLE)
		return;
	float all[TILE_ROWS][OWN], sum[TILE_ROWS][OWN];
	const float *a[TILE_ROWS];
	for (int r = 0; r < TILE_ROWS; r++) {
		u64 i = row + (u64)r < p.m ? row + (u64)r : p.m - 1; /* below the last row: it, again */
		a[r] = p.a + i * p.a_row;
		for EACH_LANE(l) {
			u64 j = col + LANE(l);
			all[r][l] = p.add && j < p.n ? p.c[i * p.n + j] : 0.0f;
		}
	}
	for (u64 from = 0, to; from < p.k; from = to) {
		to = from + piece_of(&p, p.k - from);
		for (int r = 0; r < TILE_ROWS; r++)
			for EACH_LANE(l)
				sum[r][l] = 0.0f;
		if (col + LANES > p.n)
			edge_chains(&p, a, col, from, to, sum);
		else if (p.b_col == 1)
			chains(&p, a, p.b + col, 1, from, to, sum);
		else
			chains(&p, a, p.b + col * p.b_col, p.b_col, from, to, sum);
		for (int r = 0; r < TILE_ROWS; r++)
			for EACH_LANE(l)
				all[r][l] += sum[r][l];
	}
	for (int r = 0; r < TILE_ROWS && row + (u64)r < p.m; r++)
		for EACH_LANE(l)
			if (col + LANE(l) < p.n)
				p.c[(row + (u64)r) * p.n + col + LANE(l)] = all[r][l];
}

/* Does a unit survive dropout in the row whose stream this is? */
DEVICE int survives(u64 stream, u32 unit, u32 drop)
{
	u32 h = (unit * 0x9e3779b1u) ^ (u32)stream;
	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = ((h ^ h >> 13) + (u32)(stream >> 32)) * 0xc2b2ae35u;
	h ^= h >> 16;
	return h >> 8 >= drop;
}

/* By rows: p0 = dropout(relu(p3 * p1 + p2)); no p1 is 1. p3 may be p0. */
KERNEL psrt_activate(struct layer x)
{
	u64 i = row_index();
	if (i >= x.n || IDLE)
		return;
	float *row = x.p[0] + i * x.units;
	const float *from = x.p[3] + i * x.units;
	const float *scale = x.p[1], *shift = x.p[2];
	const u64 stream = mix(x.key + x.first_row + i);
	for EACH(j, (i64)x.units) {
		float v = scale ? from[j] * scale[j] + shift[j] : from[j] + shift[j];
		v = v < 0.0f ? 0.0f : v;
		row[j] = x.drop ? v * (survives(stream, (u32)j, x.drop) ? x.keep : 0.0f) : v;
	}
}

DEVICE void activate_back(const struct layer *x, u64 j, u64 i, int rows, float *sum)
{
	float made[AHEAD], grad[AHEAD];
	for (int k = 0; k < rows; k++) {
		made[k] = x->p[0][(i + k) * x->units + j];
		grad[k] = x->p[1][(i + k) * x->units + j];
	}
	for (int k = 0; k < rows; k++) {
		const float v = grad[k] * x->keep, d = made[k] > 0.0f ? v : 0.0f;
		x->p[1][(i + k) * x->units + j] = d;
		*sum += d;
	}
}

/* By columns: p1, the gradient of what activate made, p0, becomes that of what it had; p2
 * is its sum. */
KERNEL psrt_activate_back(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.units || IDLE)
		return;
	for EACH_COLUMN(j, at, x) {
		float sum = 0.0f;
		DOWN(&x, activate_back, &sum);
		x.p[2][j] = sum;
	}
}

DEVICE void add_down(const struct layer *x, u64 j, u64 i, int rows, float *sum)
{
	float v[AHEAD];
	for (int k = 0; k < rows; k++)
		v[k] = x->p[0][(i + k) * x->units + j];
	for (int k = 0; k < rows; k++)
		*sum += v[k];
}

/* Without the mean, and the sum of its squares. */
DEVICE void center(const struct layer *x, u64 j, u64 i, int rows, float mean, float *squares)
{
	float v[AHEAD];
	for (int k = 0; k < rows; k++)
		v[k] = x->p[0][(i + k) * x->units + j];
	for (int k = 0; k < rows; k++) {
		const float d = v[k] - mean;
		x->p[0][(i + k) * x->units + j] = d;
		*squares += d * d;
	}
}

DEVICE void scale_down(const struct layer *x, u64 j, u64 i, int rows, float by)
{
	float v[AHEAD];
	for (int k = 0; k < rows; k++)
		v[k] = x->p[0][(i + k) * x->units + j];
	for (int k = 0; k < rows; k++)
		x->p[0][(i + k) * x->units + j] = v[k] * by;
}

/* By columns: p0 is normalized; p1 and p2 are mean and variance times scale, p3 1 over the
 * deviation. */
KERNEL psrt_normalize(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.units || IDLE)
		return;
	const float share = 1.0f / (float)x.n;
	for EACH_COLUMN(j, at, x) {
		float mean = 0.0f, variance = 0.0f;
		DOWN(&x, add_down, &mean);
		mean *= share;
		DOWN(&x, center, mean, &variance);
		variance *= share;
		const float inverse = 1.0f / SQRT(variance + 1e-5f);
		DOWN(&x, scale_down, inverse);
		x.p[1][j] = mean * x.scale;
		x.p[2][j] = variance * x.scale;
		x.p[3][j] = inverse;
	}
}

DEVICE void add_products(const struct layer *x, u64 j, u64 i, int rows, float *sum)
{
	float a[AHEAD], b[AHEAD];
	for (int k = 0; k < rows; k++) {
		a[k] = x->p[3][(i + k) * x->units + j];
		b[k] = x->p[0][(i + k) * x->units + j];
	}
	for (int k = 0; k < rows; k++)
		*sum += a[k] * b[k];
}

DEVICE void normalize_back(const struct layer *x, u64 j, u64 i, int rows, float sum, float share)
{
	float d[AHEAD], made[AHEAD];
	for (int k = 0; k < rows; k++) {
		d[k] = x->p[3][(i + k) * x->units + j];
		made[k] = x->p[0][(i + k) * x->units + j];
	}
	const float by = x->p[1][j] * x->p[2][j];
	for (int k = 0; k < rows; k++)
		x->p[3][(i + k) * x->units + j] = by * (d[k] - (x->p[5][j] + made[k] * sum) * share);
}

/* By columns: p3, the gradient of p1 * p0 + beta, becomes that of what normalize had; p2 is 1
 * over the deviation, p4 becomes the gradient of p1, p5 is that of beta. */
KERNEL psrt_normalize_back(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.units || IDLE)
		return;
	const float share = 1.0f / (float)x.n;
	for EACH_COLUMN(j, at, x) {
		float sum = 0.0f;
		DOWN(&x, add_products, &sum);
		DOWN(&x, normalize_back, sum, share);
		x.p[4][j] = sum;
	}
}

/* By rows: p2[row] += p0's row times p1. */
KERNEL psrt_output(struct layer x)
{
	u64 i = row_index();
	if (i >= x.n || IDLE)
		return;
	const float *row = x.p[0] + i * x.units;
	float lane[OWN];
	for EACH_LANE(l) {
		lane[l] = 0.0f;
		for OF_LANE(j, l, (i64)x.units)
			lane[l] += row[j] * x.p[1][j];
	}
	const float sum = sum_lanes(lane);
	if (first_lane() == 0)
		x.p[2][i] += sum;
}

DEVICE void output_back(const struct layer *x, u64 j, u64 i, int rows, float *sum)
{
	float grad[AHEAD], made[AHEAD];
	for (int k = 0; k < rows; k++) {
		grad[k] = x->p[2][i + k];
		made[k] = x->p[0][(i + k) * x->units + j];
	}
	const float weight = x->p[1][j];
	for (int k = 0; k < rows; k++) {
		x->p[3][(i + k) * x->units + j] = grad[k] * weight;
		*sum += grad[k] * made[k];
	}
}

/* By columns: p2 are the logits' gradients, p3 becomes that of p0, p4 that of p1. */
KERNEL psrt_output_back(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.units || IDLE)
		return;
	for EACH_COLUMN(j, at, x) {
		float sum = 0.0f;
		DOWN(&x, output_back, &sum);
		x.p[4][j] = sum;
	}
}

/* By rows: p3 += p2, p4 = p0 * p3 + p1. */
KERNEL psrt_cross(struct layer x)
{
	u64 i = row_index();
	if (i >= x.n || IDLE)
		return;
	for EACH(j, (i64)x.units) {
		u64 e = i * x.units + (u64)j;
		x.p[3][e] += x.p[2][j];
		x.p[4][e] = x.p[0][e] * x.p[3][e] + x.p[1][e];
	}
}

DEVICE void cross_back(const struct layer *x, u64 j, u64 i, int rows, float *sum)
{
	float first[AHEAD], made[AHEAD], grad[AHEAD], to[AHEAD];
	for (int k = 0; k < rows; k++) {
		const u64 e = (i + k) * x->units + j;
		first[k] = x->p[0][e];
		made[k] = x->p[1][e];
		grad[k] = x->p[2][e];
		to[k] = x->p[4][e];
	}
	for (int k = 0; k < rows; k++) {
		const u64 e = (i + k) * x->units + j;
		const float t = grad[k] * first[k];
		x->p[3][e] = t;
		*sum += t;
		x->p[4][e] = to[k] + grad[k] * made[k];
	}
}

/* By columns: of p2, the gradient of cross's p4, with p0 its p0 and p1 its p3: p3 becomes
 * that of p1, p5 its sum, and p4 gets what it adds to that of p0. */
KERNEL psrt_cross_back(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.units || IDLE)
		return;
	for EACH_COLUMN(j, at, x) {
		float sum = 0.0f;
		DOWN(&x, cross_back, &sum);
		x.p[5][j] = sum;
	}
}

/* By rows: p0 += p1. */
KERNEL psrt_add(struct layer x)
{
	u64 i = row_index();
	if (i >= x.n || IDLE)
		return;
	for EACH(j, (i64)x.units)
		x.p[0][i * x.units + (u64)j] += x.p[1][i * x.units + (u64)j];
}

/* exp(-t) for t >= 0; a NaN stays one. */
DEVICE double exp_neg(double t)
{
	t = t > 700.0 ? 700.0 : t;
	union { double d; u64 u; } shifted, power;
	shifted.d = t * 0x1.71547652b82fep+0 + 0x1.8p52; /* t / ln 2 */
	const double whole = shifted.d - 0x1.8p52;
	const double r = (whole * 0x1.62e42fefa3800p-1 - t) + whole * 0x1.ef35793c76730p-45;
	double p = 1.0 / 479001600;
	p = p * r + 1.0 / 39916800;
	p = p * r + 1.0 / 3628800;
	p = p * r + 1.0 / 362880;
	p = p * r + 1.0 / 40320;
	p = p * r + 1.0 / 5040;
	p = p * r + 1.0 / 720;
	p = p * r + 1.0 / 120;
	p = p * r + 1.0 / 24;
	p = p * r + 1.0 / 6;
	p = p * r + 0.5;
	p = p * r + 1.0;
	p = p * r + 1.0;
	power.u = (1023 - (shifted.u & 0x7ff)) << 52; /* 2^-whole */
	return p * power.d;
}

/* An example a lane: of logits p0 and labels p1, p2 becomes the gradient of the loss times
 * scale, p3 the prediction. */
KERNEL psrt_loss(struct layer x)
{
	u64 at = row_index();
	if (at * LANES >= x.n || IDLE)
		return;
	for EACH_LANE(l) {
		u64 i = COLUMN(at, l);
		if (i >= x.n)
			continue;
		const double t = x.p[0][i], y = x.p[1][i];
		if (x.square) {
			x.p[2][i] = (float)(2.0 * (t - y)) * x.scale;
			x.p[3][i] = x.p[0][i];
			continue;
		}
		const double e = exp_neg(t < 0 ? -t : t);
		const double up = 1.0 / (1.0 + e), down = e / (1.0 + e), p = t < 0 ? down : up;
		x.p[2][i] = (float)(p - y) * x.scale;
		x.p[3][i] = (float)p;
	}
}

#endif
