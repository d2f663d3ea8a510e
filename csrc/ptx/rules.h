/* The optimizers of csrc/kernels, with the same operations in the same order, so
 * with the same bits. LANES threads do a row: each its own elements; what they all
 * read, one writes after all have. */
#include "device.h"

struct rule {
	int kind;
	float lr, beta1, beta2, eps, l1, l2, beta;
};

enum { SGD, ADAGRAD, ROWADAGRAD, ADAM, FTRL, EMA, ACCUMULATE, ASSIGN, PAST_ADAGRAD, PAST_ADAGRAD_EACH, SHARED_ADAM };

/* A gradient, each element divided by a number that is 1 where it is as it is. */
struct grad {
	const float *at;
	float by;
};

DEVICE float grad_of(const struct grad *g, i64 i) { return g->by == 1.0f ? g->at[i] : g->at[i] / g->by; }

#define G(i) grad_of(g, i)

/* Four elements of one lane, which are one access of memory each: what a card waits for is
 * memory, and it has four times as much on its way. */
union quad {
	float4_t all;
	float of[4];
};

DEVICE int in_quads(i64 n, u64 addresses) { return n % 4 == 0 && addresses % 16 == 0; }

DEVICE union quad quad_at(const float *p, i64 i)
{
	union quad q;
	q.all = ((const float4_t *)p)[i];
	return q;
}

DEVICE void put_quad(float *p, i64 i, const union quad *q) { ((float4_t *)p)[i] = q->all; }

DEVICE void copy(float *to, const float *from, i64 n)
{
	if (in_quads(n, (u64)to | (u64)from)) { /* a matrix of somebody's may begin anywhere */
		for EACH(i, n / 4)
			((float4_t *)to)[i] = ((const float4_t *)from)[i];
		return;
	}
	for EACH(i, n)
		to[i] = from[i];
}

DEVICE void zero(float *to, i64 n)
{
	for EACH(i, n)
		to[i] = 0.0f;
}

DEVICE int no_number(float g)
{
	union { float f; u32 u; } x;
	x.f = g;
	return (x.u & 0x7f800000u) == 0x7f800000u;
}

DEVICE int refuses(const struct grad *g, i64 n)
{
	int bad[OWN];
	for EACH_LANE(l) {
		bad[l] = 0;
		for OF_LANE(i, l, n)
			bad[l] |= no_number(G(i));
	}
	return any_lane(bad);
}

/* The same of a gradient as it is. */
DEVICE int refuses_whole(const float *g, i64 n)
{
	const struct grad as_is = { g, 1.0f };
	if (!in_quads(n, (u64)g))
		return refuses(&as_is, n);
	int bad[OWN];
	for EACH_LANE(l) {
		bad[l] = 0;
		for OF_LANE(i, l, n / 4) {
			const union quad x = quad_at(g, i);
			for (int j = 0; j < 4; j++)
				bad[l] |= no_number(x.of[j]);
		}
	}
	return any_lane(bad);
}

DEVICE float sum_squares(float l2, const float *w, const struct grad *g, i64 n)
{
	float s[OWN];
	for EACH_LANE(l) {
		s[l] = 0.0f;
		for OF_LANE(i, l, n) {
			float d = G(i) + l2 * w[i];
			s[l] += d * d;
		}
	}
	return sum_lanes(s);
}

/* (0 x g) + g is g, but for the sign of a zero, which the square takes away. */
DEVICE float sum_squares_of(const struct grad *g, i64 n)
{
	float s[OWN];
	for EACH_LANE(l) {
		s[l] = 0.0f;
		for OF_LANE(i, l, n)
			s[l] += G(i) * G(i);
	}
	return sum_lanes(s);
}

DEVICE float sum_plain(const struct grad *g, i64 n)
{
	float s[OWN];
	for EACH_LANE(l) {
		s[l] = 0.0f;
		for OF_LANE(i, l, n)
			s[l] += G(i);
	}
	return sum_lanes(s);
}

DEVICE float power(float p) { return p < 1e-30f ? 0.0f : p; }

/* The state of a row that its lanes share is read by all before the first lane
 * writes it. */
DEVICE void set_shared(float *to, float v)
{
	if (first_lane() == 0)
		*to = v;
}

DEVICE void adam(const struct rule *r, float *w, float *m, float *v, float *p, const struct grad *g, i64 n)
{
	float p1 = power(p[0] * r->beta1), p2 = power(p[1] * r->beta2);
	float rate = r->lr / (1.0f - p1), scale = 1.0f / SQRT(1.0f - p2);
	float fresh1 = 1.0f - r->beta1, fresh2 = 1.0f - r->beta2;
	lanes_meet();
	set_shared(p, p1);
	set_shared(p + 1, p2);
	for EACH(i, n) {
		float d = G(i) + r->l2 * w[i];
		float m1 = r->beta1 * m[i] + fresh1 * d;
		float v1 = r->beta2 * v[i] + (fresh2 * d) * d;
		m[i] = m1;
		v[i] = v1;
		w[i] = w[i] - (rate * m1) / (SQRT(v1) * scale + r->eps);
	}
}

DEVICE void sgd_of(const struct rule *r, float *w, float g)
{
	float d = g + r->l2 * *w;
	*w = *w - r->lr * d;
}

DEVICE void adagrad_of(const struct rule *r, float *w, float *s, float g)
{
	float d = g + r->l2 * *w;
	float a = *s + d * d;
	*s = a;
	*w = *w - (r->lr * d) / (SQRT(a) + r->eps);
}

/* Row w, its state s: with a gradient as it is, in quads. 0 where none of these rules, or
 * where the row cannot be had so. */
DEVICE int update_quads(const struct rule *r, float *w, float *s, const float *g, i64 n)
{
	if ((r->kind != SGD && r->kind != ADAGRAD) || !in_quads(n, (u64)w | (u64)s | (u64)g))
		return 0;
	for EACH(i, n / 4) {
		union quad x = quad_at(w, i), by = quad_at(g, i);
		if (r->kind == SGD) {
			for (int j = 0; j < 4; j++)
				sgd_of(r, &x.of[j], by.of[j]);
		} else {
			union quad sum = quad_at(s, i);
			for (int j = 0; j < 4; j++)
				adagrad_of(r, &x.of[j], &sum.of[j], by.of[j]);
			put_quad(s, i, &sum);
		}
		put_quad(w, i, &x);
	}
	return 1;
}

DEVICE void ftrl(const struct rule *r, float *w, float *z, float *s, const struct grad *g, i64 n)
{
	for EACH(i, n) {
		float a = s[i] + G(i) * G(i);
		float root = SQRT(a);
		float sigma = (root - SQRT(s[i])) / r->lr;
		float z1 = z[i] + (G(i) - sigma * w[i]);
		float next = (__builtin_copysignf(r->l1, z1) - z1) / ((r->beta + root) / r->lr + r->l2);
		z[i] = z1;
		s[i] = a;
		w[i] = __builtin_fabsf(z1) <= r->l1 ? 0.0f : next;
	}
}

DEVICE void shared_adam(const struct rule *r, float *w, float *s, const struct grad *g, i64 n)
{
	float fresh1 = 1.0f - r->beta1, fresh2 = 1.0f - r->beta2;
	float m = r->beta1 * s[0], v = r->beta2 * s[1];
	float p1 = power(s[2] * r->beta1), p2 = power(s[3] * r->beta2);
	float rate = r->lr / (1.0f - p1), scale = 1.0f / SQRT(1.0f - p2);
	float mean = sum_plain(g, n) / (float)n, square = sum_squares_of(g, n) / (float)n;
	lanes_meet();
	set_shared(s, m + fresh1 * mean);
	set_shared(s + 1, v + fresh2 * square);
	set_shared(s + 2, p1);
	set_shared(s + 3, p2);
	for EACH(i, n) {
		float m1 = m + fresh1 * G(i);
		float v1 = v + (fresh2 * G(i)) * G(i);
		w[i] = w[i] - (rate * m1) / (SQRT(v1) * scale + r->eps);
	}
}

DEVICE void rowadagrad(const struct rule *r, float *w, float *s, const struct grad *g, i64 n)
{
	float a = s[0] + sum_squares(r->l2, w, g, n) / (float)n;
	float step = r->lr / (SQRT(a) + r->eps);
	lanes_meet();
	set_shared(s, a);
	for EACH(i, n) {
		float d = G(i) + r->l2 * w[i];
		w[i] = w[i] - step * d;
	}
}

DEVICE void past_adagrad(const struct rule *r, float *w, float *s, const struct grad *g, i64 n)
{
	float step = r->lr * SQRT(r->beta / (r->beta + s[0]));
	float a = s[0] + sum_squares_of(g, n) / (float)n;
	lanes_meet();
	set_shared(s, a);
	for EACH(i, n)
		w[i] = w[i] - step * G(i);
}

DEVICE void assign(float *w, const struct grad *g, i64 n)
{
	for EACH(i, n)
		w[i] = G(i);
}

/* Weights w and their state s by gradient g. */
DEVICE void update_part(const struct rule *r, float *w, float *s, const struct grad *g, i64 n)
{
	switch (r->kind) {
	case SGD:
		for EACH(k, n)
			sgd_of(r, w + k, G(k));
		break;
	case ADAGRAD:
		for EACH(k, n)
			adagrad_of(r, w + k, s + k, G(k));
		break;
	case ROWADAGRAD: rowadagrad(r, w, s, g, n); break;
	case ADAM: adam(r, w, s, s + n, s + 2 * n, g, n); break;
	case FTRL: ftrl(r, w, s, s + n, g, n); break;
	case EMA: {
		float keep = 1.0f - r->lr;
		for EACH(k, n)
			w[k] = keep * w[k] + r->lr * G(k);
		break;
	}
	case ACCUMULATE:
		for EACH(k, n)
			w[k] = w[k] + G(k);
		break;
	case ASSIGN: assign(w, g, n); break;
	case PAST_ADAGRAD: past_adagrad(r, w, s, g, n); break;
	case PAST_ADAGRAD_EACH:
		for EACH(k, n) {
			float step = r->lr * SQRT(r->beta / (r->beta + s[k]));
			s[k] += G(k) * G(k);
			w[k] = w[k] - step * G(k);
		}
		break;
	case SHARED_ADAM: shared_adam(r, w, s, g, n); break;
	}
}
