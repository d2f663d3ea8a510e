#ifndef PSRT_VERBS_USDT_H
#define PSRT_VERBS_USDT_H

#include <stdint.h>

/* Points in the program that bpftrace, perf, systemtap and gdb know by name
 * (USDT). A point is one nop and a note that says where it lies and in which
 * registers its arguments are; who looks puts a breakpoint on the nop and
 * raises the semaphore, so that nobody else pays for the arguments.
 *
 * The note, by the format of systemtap's sdt.h, version 3: name "stapsdt",
 * type 3; then the addresses of the nop, of .stapsdt.base (who moves the
 * program afterwards moves both) and of the semaphore; then provider, name and
 * arguments as texts. An argument is SIZE@OPERAND, SIZE negative if signed. */

/* Declares or defines the semaphore of a point. */
#define PSRT_USDT_SEMAPHORE(name) \
	volatile unsigned short psrt_usdt_##name __attribute__((section(".probes"), visibility("hidden")))

#if defined(__x86_64__)

/* Eight arguments of 64 bits, always in these registers: the first six as for
 * a call. Only once for each name, in a function that is not inlined. */
#define PSRT_USDT(name, a, b, c, d, e, f, g, h) \
	do { \
		register uint64_t psrt_e_ __asm__("r8") = (uint64_t)(e); \
		register uint64_t psrt_f_ __asm__("r9") = (uint64_t)(f); \
		register uint64_t psrt_h_ __asm__("r10") = (uint64_t)(h); \
		__asm__ volatile( \
			"990:	nop\n" \
			"	.pushsection .note.stapsdt,\"\",\"note\"\n" \
			"	.balign 4\n" \
			"	.4byte 992f-991f, 994f-993f, 3\n" \
			"991:	.asciz \"stapsdt\"\n" \
			"992:	.balign 4\n" \
			"993:	.8byte 990b\n" \
			"	.8byte _.stapsdt.base\n" \
			"	.8byte psrt_usdt_" #name "\n" \
			"	.asciz \"psrt\"\n" \
			"	.asciz \"" #name "\"\n" \
			"	.asciz \"8@%%rdi 8@%%rsi 8@%%rdx 8@%%rcx 8@%%r8 8@%%r9 8@%%rax 8@%%r10\"\n" \
			"994:	.balign 4\n" \
			"	.popsection\n" \
			"	.ifndef _.stapsdt.base\n" \
			"	.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			"	.weak _.stapsdt.base\n" \
			"	.hidden _.stapsdt.base\n" \
			"_.stapsdt.base: .space 1\n" \
			"	.size _.stapsdt.base, 1\n" \
			"	.popsection\n" \
			"	.endif\n" \
			: \
			: "D"((uint64_t)(a)), "S"((uint64_t)(b)), "d"((uint64_t)(c)), "c"((uint64_t)(d)), "r"(psrt_e_), \
			  "r"(psrt_f_), "a"((uint64_t)(g)), "r"(psrt_h_) \
			: "memory"); \
	} while (0)

#else /* no points on this machine */
#define PSRT_USDT(name, a, b, c, d, e, f, g, h) \
	((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f), (void)(g), (void)(h))
#endif

#endif
