/* What the fake driver's card does with single instructions, and with texts that no card should be
 * given: each against what the PTX ISA says. Ends with 1 where one differs. */
#include "fake.c"

static int failed;

static const char head[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry k(\n\t.param .align 8 .b8 k_param_0[32]\n)\n{\n"
	"\t.reg .pred %p<9>;\n\t.reg .b32 %r<9>;\n\t.reg .f32 %f<9>;\n\t.reg .b64 %rd<9>;\n\t.reg .f64 %fd<9>;\n";

struct argument {
	u64 out, a, b, c;
};

/* The result of launching a text; what compiling it says goes to wrong. */
static int run(const char *text, struct argument x, unsigned blocks, unsigned threads, char *wrong, size_t room)
{
	void *m, *f, *arguments[] = { &x }, *values[] = { wrong, (void *)room };
	int r = cuModuleLoadDataEx(&m, text, 0, NULL, values);
	if (r)
		return r;
	if (cuModuleGetFunction(&f, m, "k") || cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL))
		abort();
	all();
	r = broken;
	broken = OK;
	if (cuModuleUnload(m))
		abort();
	return r;
}

static u64 take_words(size_t n)
{
	unsigned long long at;
	if (cuMemAlloc_v2(&at, n * 4))
		abort();
	memset((void *)at, 0, n * 4);
	return at;
}

/* Of registers 1, 2 and 3 of each class, which have a, b and c, to register 0 of one. */
static void instruction(const char *text, u64 a, u64 b, u64 c, u64 want)
{
	static const char *const loads =
		"\tld.param.u64 %rd8, [k_param_0];\n"
		"\tld.param.u64 %rd1, [k_param_0+8];\n\tld.param.u64 %rd2, [k_param_0+16];\n\tld.param.u64 %rd3, [k_param_0+24];\n"
		"\tld.param.u32 %r1, [k_param_0+8];\n\tld.param.u32 %r2, [k_param_0+16];\n\tld.param.u32 %r3, [k_param_0+24];\n"
		"\tld.param.f32 %f1, [k_param_0+8];\n\tld.param.f32 %f2, [k_param_0+16];\n\tld.param.f32 %f3, [k_param_0+24];\n"
		"\tld.param.f64 %fd1, [k_param_0+8];\n\tld.param.f64 %fd2, [k_param_0+16];\n\tld.param.f64 %fd3, [k_param_0+24];\n"
		"\tsetp.ne.s64 %p1, %rd1, 0;\n\tsetp.ne.s64 %p2, %rd2, 0;\n\tsetp.ne.s64 %p3, %rd3, 0;\n";
	const char *to = strchr(text, '%');
	char whole[4096], wrong[256] = "", store[128];
	if (to[1] == 'p')
		snprintf(store, sizeof store, "\tselp.u32 %%r8, 1, 0, %%p0;\n\tst.global.u32 [%%rd8], %%r8;\n\tret;\n}\n");
	else
		snprintf(store, sizeof store, "\tst.global.%s [%%rd8], %.*s;\n\tret;\n}\n", to[1] == 'f' ? to[2] == 'd' ? "f64" : "f32" : to[2] == 'd' ? "u64" : "u32",
			(int)strcspn(to, ", "), to);
	snprintf(whole, sizeof whole, "%s%s\t%s;\n%s", head, loads, text, store);
	struct argument x = { take_words(2), a, b, c };
	int r = run(whole, x, 1, 1, wrong, sizeof wrong);
	u64 got;
	memcpy(&got, (void *)x.out, sizeof got);
	if (r || got != want) {
		printf("%s of %#llx, %#llx, %#llx: %#llx, want %#llx (error %d %s)\n", text, a, b, c, got, want, r, wrong);
		failed = 1;
	}
	if (cuMemFree_v2(x.out))
		abort();
}

static void refused(const char *body, unsigned threads, int want, const char *says)
{
	char whole[4096], wrong[256] = "";
	snprintf(whole, sizeof whole, "%s\tld.param.u64 %%rd8, [k_param_0];\n\tld.param.u64 %%rd7, [k_param_0+8];\n%s}\n", head, body);
	struct argument x = { .out = take_words(64) };
	struct argument other = x;
	if (cuCtxPushCurrent_v2(&retained[1]))
		abort();
	other.a = take_words(64);
	void *c;
	cuCtxPopCurrent_v2(&c);
	int r = run(whole, other, 1, threads, wrong, sizeof wrong);
	if (r != want || !strstr(wrong, says)) {
		printf("%s: error %d, want %d (%s)\n", body, r, want, wrong);
		failed = 1;
	}
	if (cuMemFree_v2(x.out) || cuMemFree_v2(other.a))
		abort();
}

/* Each lane goes round as often as its number says, meets its half of the warp, and adds up
 * the half's numbers. */
static void rounds(void)
{
	static const char body[] =
		"\tmov.u32 %r1, %tid.x;\n\tand.b32 %r2, %r1, 15;\n\tmov.u32 %r3, %r2;\n\tmov.u32 %r4, 0;\n"
		"LOOP:\n\tsetp.eq.s32 %p1, %r3, 0;\n\t@%p1 bra OUT;\n\tadd.s32 %r4, %r4, 1;\n\tadd.s32 %r3, %r3, -1;\n\tbra.uni LOOP;\n"
		"OUT:\n\tand.b32 %r5, %r1, 16;\n\tmov.u32 %r6, 65535;\n\tshl.b32 %r6, %r6, %r5;\n\tbar.warp.sync %r6;\n"
		"\tshfl.sync.bfly.b32 %r7, %r4, 8, 4127, %r6;\n\tadd.s32 %r4, %r4, %r7;\n"
		"\tshfl.sync.bfly.b32 %r7, %r4, 4, 4127, %r6;\n\tadd.s32 %r4, %r4, %r7;\n"
		"\tshfl.sync.bfly.b32 %r7, %r4, 2, 4127, %r6;\n\tadd.s32 %r4, %r4, %r7;\n"
		"\tshfl.sync.bfly.b32 %r7, %r4, 1, 4127, %r6;\n\tadd.s32 %r4, %r4, %r7;\n"
		"\tmov.u32 %r8, %ctaid.x;\n\tmov.u32 %r7, %ntid.x;\n\tmul.lo.s32 %r8, %r8, %r7;\n\tadd.s32 %r8, %r8, %r1;\n"
		"\tmul.wide.u32 %rd1, %r8, 4;\n\tadd.s64 %rd1, %rd8, %rd1;\n\tst.global.u32 [%rd1], %r4;\n\tret;\n";
	enum { BLOCKS = 64, THREADS = 96 };
	char whole[4096], wrong[256] = "";
	snprintf(whole, sizeof whole, "%s\tld.param.u64 %%rd8, [k_param_0];\n%s}\n", head, body);
	struct argument x = { .out = take_words(BLOCKS * THREADS) };
	int r = run(whole, x, BLOCKS, THREADS, wrong, sizeof wrong);
	for (int i = 0; i < BLOCKS * THREADS; i++)
		if (r || ((u32 *)x.out)[i] != 120) {
			printf("thread %d has a sum of %u, want 120 (error %d %s)\n", i, ((u32 *)x.out)[i], r, wrong);
			failed = 1;
			break;
		}
}

int main(void)
{
	void *c;
	if (setenv("PSRT_FAKE_CUDA_DEVICES", "2", 1) || cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxPushCurrent_v2(c))
		abort();
	const u64 one = 0x3f800000, nan = 0x7fc00001, infinity = 0x7f800000, tiny = 1, d1 = 0x3ff0000000000000;
	instruction("add.rn.f32 %f0, %f1, %f2", one, one, 0, 0x40000000);
	instruction("add.rn.f32 %f0, %f1, %f2", tiny, tiny, 0, 2); /* denormals are kept */
	instruction("add.rn.f32 %f0, %f1, %f2", nan, one, 0, 0x7fffffff);
	instruction("sub.rn.f32 %f0, %f1, %f2", infinity, infinity, 0, 0x7fffffff);
	instruction("mul.rn.f32 %f0, %f1, %f2", infinity, 0, 0, 0x7fffffff);
	instruction("mul.rn.f32 %f0, %f1, %f2", 0x3f800001, 0x3f800001, 0, 0x3f800002);
	instruction("fma.rn.f32 %f0, %f1, %f2, %f3", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000); /* rounded once */
	instruction("div.rn.f32 %f0, %f1, %f2", one, 0x40400000, 0, 0x3eaaaaab);
	instruction("div.rn.f32 %f0, %f1, %f2", one, 0, 0, infinity);
	instruction("rcp.rn.f32 %f0, %f1", 0x40400000, 0, 0, 0x3eaaaaab);
	instruction("sqrt.rn.f32 %f0, %f1", 0x40000000, 0, 0, 0x3fb504f3);
	instruction("sqrt.rn.f32 %f0, %f1", 0xbf800000, 0, 0, 0x7fffffff);
	instruction("neg.f32 %f0, %f1", one, 0, 0, 0xbf800000);
	instruction("abs.f32 %f0, %f1", 0x80000001, 0, 0, 1);
	instruction("div.rn.f64 %fd0, %fd1, %fd2", d1, 0x4008000000000000, 0, 0x3fd5555555555555);
	instruction("cvt.rn.f32.f64 %f0, %fd1", 0x3fd5555555555555, 0, 0, 0x3eaaaaab);
	instruction("cvt.f64.f32 %fd0, %f1", one, 0, 0, d1);
	instruction("cvt.rn.f32.s64 %f0, %rd1", -3ull, 0, 0, 0xc0400000);
	instruction("cvt.rn.f32.u64 %f0, %rd1", ~0ull, 0, 0, 0x5f800000);
	instruction("cvt.rzi.u32.f32 %r0, %f1", 0x402ccccd, 0, 0, 2); /* 2.7 */
	instruction("cvt.rzi.u32.f32 %r0, %f1", 0xbf800000, 0, 0, 0);
	instruction("cvt.rzi.u32.f32 %r0, %f1", infinity, 0, 0, 0xffffffff);
	instruction("cvt.rzi.u32.f32 %r0, %f1", nan, 0, 0, 0);
	instruction("cvt.s64.s32 %rd0, %r1", 0xfffffffe, 0, 0, -2ull);
	instruction("cvt.u64.u32 %rd0, %r1", 0xfffffffe, 0, 0, 0xfffffffe);
	instruction("mul.wide.s32 %rd0, %r1, %r2", 0xffffffff, 4, 0, -4ull);
	instruction("mul.hi.u64 %rd0, %rd1, %rd2", 1ull << 63, 6, 0, 3);
	instruction("mul.lo.s64 %rd0, %rd1, %rd2", -5ull, 7, 0, -35ull);
	instruction("add.s32 %r0, %r1, %r2", 0xffffffff, 2, 0, 1);
	instruction("shl.b32 %r0, %r1, %r2", 1, 32, 0, 0);
	instruction("shl.b64 %rd0, %rd1, %r2", 1, 63, 0, 1ull << 63);
	instruction("shr.s32 %r0, %r1, %r2", 0x80000000, 40, 0, 0xffffffff);
	instruction("shr.s64 %rd0, %rd1, 63", 1ull << 63, 0, 0, ~0ull);
	instruction("shr.u64 %rd0, %rd1, 64", ~0ull, 0, 0, 0);
	instruction("rem.u64 %rd0, %rd1, %rd2", 17, 5, 0, 2);
	instruction("setp.lt.s32 %p0, %r1, %r2", 0xffffffff, 0, 0, 1);
	instruction("setp.lt.u32 %p0, %r1, %r2", 0xffffffff, 0, 0, 0);
	instruction("setp.le.u64 %p0, %rd1, %rd2", 1ull << 63, 5, 0, 0);
	instruction("setp.ge.f32 %p0, %f1, %f2", nan, one, 0, 0);
	instruction("setp.geu.f32 %p0, %f1, %f2", nan, one, 0, 1);
	instruction("setp.ltu.f64 %p0, %fd1, %fd2", d1, d1, 0, 0);
	instruction("setp.ne.f32 %p0, %f1, %f2", nan, one, 0, 0);
	instruction("setp.neu.f32 %p0, %f1, %f2", nan, one, 0, 1);
	instruction("setp.eq.f32 %p0, %f1, %f2", 0x80000000, 0, 0, 1);
	instruction("xor.pred %p0, %p1, %p2", 1, 1, 0, 0);
	instruction("not.pred %p0, %p1", 0, 0, 0, 1);
	instruction("selp.f32 %f0, %f1, %f2, %p3", 1, 2, 0, 2);
	instruction("selp.b64 %rd0, %rd1, 0, %p1", 9, 0, 0, 9);
	instruction("mov.f64 %fd0, 0dBFF0000000000000", 0, 0, 0, 0xbff0000000000000);
	instruction("mov.u64 %rd0, -8", 0, 0, 0, -8ull);
	rounds();
	refused("\tmov.u32 %r1, %tid.x;\n\tst.global.u32 [%rd8], %r1;\n\tret;\n", 1, OK, "");
	refused("\tmov.u32 %r1, %tid.x;\n\tst.global.u32 [%rd8], %r1;\n\tret;\n", 2, LAUNCH, "");
	refused("\tatom.global.add.u64 %rd1, [%rd8], 1;\n\tret;\n", 64, OK, "");
	refused("\tmov.u32 %r1, %tid.x;\n\tsetp.eq.s32 %p1, %r1, 0;\n\tld.global.u32 %r2, [%rd8];\n\t@%p1 st.global.u32 [%rd8], %r1;\n\tret;\n", 16, LAUNCH, "");
	refused("\tmov.u32 %r1, %tid.x;\n\tsetp.eq.s32 %p1, %r1, 0;\n\tld.global.u32 %r2, [%rd8];\n\tbar.warp.sync 65535;\n\t@%p1 st.global.u32 [%rd8], %r1;\n\tret;\n", 16, OK, "");
	refused("\tst.global.u64 [%rd8+4], %rd8;\n\tret;\n", 1, MISALIGNED_ADDRESS, "");
	refused("\tst.global.v4.f32 [%rd8+8], {%f1, %f2, %f3, %f4};\n\tret;\n", 1, MISALIGNED_ADDRESS, "");
	refused("\tld.global.u32 %r1, [%rd8+256];\n\tret;\n", 1, ILLEGAL_ADDRESS, "");
	refused("\tadd.s64 %rd8, %rd8, 8;\n\tst.global.v2.u32 [%rd8+-8], {%r1, %r2};\n\tret;\n", 1, OK, "");
	refused("\tadd.s64 %rd8, %rd8, 8;\n\tst.global.v2.u32 [%rd8+-16], {%r1, %r2};\n\tret;\n", 1, ILLEGAL_ADDRESS, "");
	refused("\tld.global.u32 %r1, [%rd7];\n\tret;\n", 1, ILLEGAL_ADDRESS, ""); /* the other device's */
	refused("\tld.param.u64 %rd1, [k_param_0+32];\n\tret;\n", 1, ILLEGAL_ADDRESS, "");
	refused("\tmov.u32 %r1, %tid.x;\n\tsetp.gt.s32 %p1, %r1, 7;\n\t@%p1 ret;\n\tshfl.sync.bfly.b32 %r2, %r1, 8, 4127, 65535;\n\tret;\n", 16, LAUNCH, "");
	refused("\tmov.u32 %r1, %tid.x;\n\tsetp.gt.s32 %p1, %r1, 7;\n\t@%p1 bra L;\n\tbar.warp.sync 65535;\n\tret;\nL:\n\tbar.warp.sync 65535;\n\tret;\n", 16, LAUNCH, "");
	refused("\tbar.warp.sync 2;\n\tret;\n", 2, LAUNCH, ""); /* the first names the other only */
	refused("\tsin.approx.f32 %f1, %f2;\n\tret;\n", 1, 218, "line 15: no instruction that this driver knows: sin.approx.f32");
	refused("\tadd.s32 %r1, %r9, 1;\n\tret;\n", 1, 218, "line 15: no such register: %r9");
	refused("\tbra L;\n\tret;\n", 1, 218, "no such label: L");
	refused("\tadd.s32 %r1, %r1, 1;\n", 1, 218, "a function that does not end");
	return failed;
}
