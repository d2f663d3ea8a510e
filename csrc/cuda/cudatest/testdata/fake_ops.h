/* What instructions of PTX do that have operands in registers only, a lane at a time: D, A,
 * B and C are the lane's cells. As the PTX ISA has it: amounts of shifts are clamped, and
 * NaN that arithmetic makes is 7fffffff (x86 makes another). NEXT has one of them, in
 * whatever way who includes this wants it: a name, its text, what it does. */

#define SETP(type, cell) \
	NEXT(setp_eq_##type, "setp.eq." #type, D.u = A.cell == B.cell) \
	NEXT(setp_ne_##type, "setp.ne." #type, D.u = A.cell != B.cell) \
	NEXT(setp_lt_##type, "setp.lt." #type, D.u = A.cell < B.cell) \
	NEXT(setp_le_##type, "setp.le." #type, D.u = A.cell <= B.cell) \
	NEXT(setp_gt_##type, "setp.gt." #type, D.u = A.cell > B.cell) \
	NEXT(setp_ge_##type, "setp.ge." #type, D.u = A.cell >= B.cell)

/* Ordered and unequal is not C's !=. */
#define SETP_FLOAT(type, cell) \
	NEXT(setp_eq_##type, "setp.eq." #type, D.u = A.cell == B.cell) \
	NEXT(setp_ne_##type, "setp.ne." #type, D.u = A.cell < B.cell || A.cell > B.cell) \
	NEXT(setp_lt_##type, "setp.lt." #type, D.u = A.cell < B.cell) \
	NEXT(setp_le_##type, "setp.le." #type, D.u = A.cell <= B.cell) \
	NEXT(setp_gt_##type, "setp.gt." #type, D.u = A.cell > B.cell) \
	NEXT(setp_ge_##type, "setp.ge." #type, D.u = A.cell >= B.cell) \
	NEXT(setp_equ_##type, "setp.equ." #type, D.u = !(A.cell < B.cell || A.cell > B.cell)) \
	NEXT(setp_neu_##type, "setp.neu." #type, D.u = A.cell != B.cell) \
	NEXT(setp_ltu_##type, "setp.ltu." #type, D.u = !(A.cell >= B.cell)) \
	NEXT(setp_leu_##type, "setp.leu." #type, D.u = !(A.cell > B.cell)) \
	NEXT(setp_gtu_##type, "setp.gtu." #type, D.u = !(A.cell <= B.cell)) \
	NEXT(setp_geu_##type, "setp.geu." #type, D.u = !(A.cell < B.cell)) \
	NEXT(setp_num_##type, "setp.num." #type, D.u = A.cell == A.cell && B.cell == B.cell) \
	NEXT(setp_nan_##type, "setp.nan." #type, D.u = A.cell != A.cell || B.cell != B.cell)

#define FLOATS(type, cell, number, root) \
	NEXT(add_##type, "add.rn." #type, D.cell = number(A.cell + B.cell)) \
	NEXT(sub_##type, "sub.rn." #type, D.cell = number(A.cell - B.cell)) \
	NEXT(mul_##type, "mul.rn." #type, D.cell = number(A.cell * B.cell)) \
	NEXT(div_##type, "div.rn." #type, D.cell = number(A.cell / B.cell)) \
	NEXT(rcp_##type, "rcp.rn." #type, D.cell = number(1 / A.cell)) \
	NEXT(sqrt_##type, "sqrt.rn." #type, D.cell = number(root(A.cell)))

#define INTS(type, cell) \
	NEXT(add_##type, "add." #type, D.cell = A.cell + B.cell) \
	NEXT(sub_##type, "sub." #type, D.cell = A.cell - B.cell) \
	NEXT(mul_lo_##type, "mul.lo." #type, D.cell = A.cell * B.cell)

#define BITS(bits, cell) \
	NEXT(and_##bits, "and." #bits, D.cell = A.cell & B.cell) \
	NEXT(or_##bits, "or." #bits, D.cell = A.cell | B.cell) \
	NEXT(xor_##bits, "xor." #bits, D.cell = A.cell ^ B.cell)

/* A word that goes into a wider register fills it with zeros, so that a predicate's cell, of
 * which all is looked at, never has what it had before. */
#define INSTRUCTIONS \
	INTS(s32, w) INTS(u32, w) INTS(s64, u) INTS(u64, u) \
	NEXT(mul_wide_s32, "mul.wide.s32", D.i = (i64)A.s * B.s) \
	NEXT(mul_wide_u32, "mul.wide.u32", D.u = (u64)A.w * B.w) \
	NEXT(mul_hi_u64, "mul.hi.u64", D.u = (u64)((unsigned __int128)A.u * B.u >> 64)) \
	NEXT(mad_lo_s32, "mad.lo.s32", D.w = A.w * B.w + C.w) \
	NEXT(mad_lo_s64, "mad.lo.s64", D.u = A.u * B.u + C.u) \
	NEXT(div_u32, "div.u32", D.w = B.w ? A.w / B.w : ~0u) \
	NEXT(div_u64, "div.u64", D.u = B.u ? A.u / B.u : ~0ull) \
	NEXT(rem_u32, "rem.u32", D.w = B.w ? A.w % B.w : A.w) \
	NEXT(rem_u64, "rem.u64", D.u = B.u ? A.u % B.u : A.u) \
	NEXT(min_u32, "min.u32", D.w = A.w < B.w ? A.w : B.w) \
	NEXT(max_u32, "max.u32", D.w = A.w > B.w ? A.w : B.w) \
	NEXT(min_s32, "min.s32", D.s = A.s < B.s ? A.s : B.s) \
	NEXT(max_s32, "max.s32", D.s = A.s > B.s ? A.s : B.s) \
	NEXT(min_u64, "min.u64", D.u = A.u < B.u ? A.u : B.u) \
	NEXT(max_u64, "max.u64", D.u = A.u > B.u ? A.u : B.u) \
	NEXT(min_s64, "min.s64", D.i = A.i < B.i ? A.i : B.i) \
	NEXT(max_s64, "max.s64", D.i = A.i > B.i ? A.i : B.i) \
	NEXT(neg_s32, "neg.s32", D.w = -A.w) \
	NEXT(neg_s64, "neg.s64", D.u = -A.u) \
	BITS(b32, w) BITS(b64, u) BITS(pred, u) \
	NEXT(not_pred, "not.pred", D.u = !A.u) \
	NEXT(not_b32, "not.b32", D.w = ~A.w) \
	NEXT(not_b64, "not.b64", D.u = ~A.u) \
	NEXT(shl_b32, "shl.b32", D.w = B.w > 31 ? 0 : A.w << B.w) \
	NEXT(shl_b64, "shl.b64", D.u = B.w > 63 ? 0 : A.u << B.w) \
	NEXT(shr_u32, "shr.u32", D.w = B.w > 31 ? 0 : A.w >> B.w) \
	NEXT(shr_s32, "shr.s32", D.s = A.s >> (B.w > 31 ? 31 : B.w)) \
	NEXT(shr_u64, "shr.u64", D.u = B.w > 63 ? 0 : A.u >> B.w) \
	NEXT(shr_s64, "shr.s64", D.i = A.i >> (B.w > 63 ? 63 : B.w)) \
	FLOATS(f32, f, number_of, sqrtf) FLOATS(f64, d, wide_number_of, sqrt) \
	NEXT(fma_f32, "fma.rn.f32", D.f = number_of(fmaf(A.f, B.f, C.f))) \
	NEXT(fma_f64, "fma.rn.f64", D.d = wide_number_of(fma(A.d, B.d, C.d))) \
	NEXT(abs_f32, "abs.f32", D.w = A.w & 0x7fffffff) \
	NEXT(neg_f32, "neg.f32", D.w = A.w ^ 0x80000000) \
	NEXT(abs_f64, "abs.f64", D.u = A.u & ~(1ull << 63)) \
	NEXT(neg_f64, "neg.f64", D.u = A.u ^ 1ull << 63) \
	SETP(s32, s) SETP(u32, w) SETP(b32, w) SETP(s64, i) SETP(u64, u) SETP(b64, u) \
	SETP_FLOAT(f32, f) SETP_FLOAT(f64, d) \
	NEXT(selp_f32, "selp.f32", D.w = C.u ? A.w : B.w) \
	NEXT(selp_b32, "selp.b32", D.w = C.u ? A.w : B.w) \
	NEXT(selp_u32, "selp.u32", D.w = C.u ? A.w : B.w) \
	NEXT(selp_s32, "selp.s32", D.w = C.u ? A.w : B.w) \
	NEXT(selp_f64, "selp.f64", D.u = C.u ? A.u : B.u) \
	NEXT(selp_b64, "selp.b64", D.u = C.u ? A.u : B.u) \
	NEXT(selp_u64, "selp.u64", D.u = C.u ? A.u : B.u) \
	NEXT(selp_s64, "selp.s64", D.u = C.u ? A.u : B.u) \
	NEXT(mov_u32, "mov.u32", D.u = A.w) NEXT(mov_b32, "mov.b32", D.u = A.w) NEXT(mov_f32, "mov.f32", D.u = A.w) \
	NEXT(mov_u64, "mov.u64", D.u = A.u) NEXT(mov_b64, "mov.b64", D.u = A.u) NEXT(mov_f64, "mov.f64", D.u = A.u) \
	NEXT(mov_pred, "mov.pred", D.u = A.u != 0) \
	NEXT(cvta_to, "cvta.to.global.u64", D.u = A.u) NEXT(cvta_of, "cvta.global.u64", D.u = A.u) \
	NEXT(cvt_s64_s32, "cvt.s64.s32", D.i = A.s) \
	NEXT(cvt_u64_u32, "cvt.u64.u32", D.u = A.w) \
	NEXT(cvt_u32_u64, "cvt.u32.u64", D.u = A.w) \
	NEXT(cvt_f32_s64, "cvt.rn.f32.s64", D.f = (float)A.i) \
	NEXT(cvt_f32_u64, "cvt.rn.f32.u64", D.f = (float)A.u) \
	NEXT(cvt_f32_s32, "cvt.rn.f32.s32", D.f = (float)A.s) \
	NEXT(cvt_f32_u32, "cvt.rn.f32.u32", D.f = (float)A.w) \
	NEXT(cvt_f32_f64, "cvt.rn.f32.f64", D.f = number_of((float)A.d)) \
	NEXT(cvt_f64_f32, "cvt.f64.f32", D.d = wide_number_of(A.f)) \
	NEXT(cvt_u32_f32, "cvt.rzi.u32.f32", D.w = !(A.f > 0) ? 0 : A.f >= 0x1p32f ? ~0u : (u32)A.f)
