/* RoCE v2 that comes in by an interface, per source and queue pair of ours.
 * Nothing is changed or held up: both programs only look. */
#include "bth.h"

char license_text[] SEC("license") = "Dual MIT/GPL";

enum {
	SEEN_WORDS = 32,
	SEEN = SEEN_WORDS * 64,	   /* numbers a window has room for */
	BEHIND = SEEN - 64,	   /* so far back it is sure of them: a word is cleared at a time */
	HALF = 1 << 23,		   /* of all numbers; beyond it, they lie behind */
	NUMBERS = (1 << 24) - 1,

	MISS_FULL = 0,
	MISS_BROKEN = 1,
	MISSES = 2,
};

/* The numbers that came of late, each bit one, as in RFC 6479: lost packets
 * are counted when they come the second time, and repeated ones once, in
 * whatever order. A sender that goes back further than any sender may has
 * begun a new sequence. One sender's packets may be on two processors: then a
 * bit may be lost, and its packet, if repeated, be counted twice. */
struct seen {
	u64 bits[SEEN_WORDS];
};

struct flow {
	u32 top[2]; /* newest number: of requests, of answers */
	u64 bytes;
	u64 messages;
	u64 repeated; /* messages, that is their last packets */
	struct seen seen[2];
};

static const struct flow fresh;

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, struct roce_key);
	TYPE(value, struct flow);
} flows SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, MISSES);
	TYPE(key, u32);
	TYPE(value, u64);
} missed SEC(".maps");

INLINE void miss(u32 why)
{
	u64 *n = map_lookup(&missed, &why);
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* first says whether the number has not come before. Bits are cleared before
 * the top moves: one too few is better than one too many, by which a packet
 * would never be counted. */
INLINE int first(struct seen *s, u32 *top, u32 psn)
{
	u32 was = *(volatile u32 *)top, ahead = (psn - was) & NUMBERS;
	if (ahead < HALF || ahead <= NUMBERS - BEHIND) { /* newer, or a new sequence */
		u32 words = ((psn >> 6) - (was >> 6)) & (NUMBERS >> 6);
		for (u32 i = 0; i < SEEN_WORDS && i < words; i++)
			s->bits[((psn >> 6) - i) & (SEEN_WORDS - 1)] = 0;
		__sync_val_compare_and_swap(top, was, psn);
	}
	u64 bit = 1ull << (psn & 63);
	return !(__sync_fetch_and_or(&s->bits[psn >> 6 & (SEEN_WORDS - 1)], bit) & bit);
}

INLINE void count(void *ctx, u32 interface, copy_out copy)
{
	struct roce_packet p;
	enum look l = parse(&p, ctx, copy);
	if (l == LOOK_OTHER)
		return;
	if (l == LOOK_BROKEN)
		return miss(MISS_BROKEN);
	p.key.interface = interface;
	struct flow *f = map_lookup(&flows, &p.key);
	if (!f) {
		map_update(&flows, &p.key, &fresh, NEW_ONLY);
		f = map_lookup(&flows, &p.key); /* another processor may have been faster */
		if (!f)
			return miss(MISS_FULL);
	}
	u32 k = p.answer & 1;
	if (!p.numbered || first(&f->seen[k], &f->top[k], p.psn)) {
		__sync_fetch_and_add(&f->bytes, p.bytes);
		__sync_fetch_and_add(&f->messages, p.ends);
	} else {
		__sync_fetch_and_add(&f->repeated, p.ends);
	}
}

/* Of a filter of tc: what the packet's first piece has is read in place. That
 * an offset is small is known; the verifier wants it said. */
INLINE int copy_skb(void *ctx, u32 offset, void *to, u32 bytes)
{
	struct __sk_buff *skb = ctx;
	u8 *from = (u8 *)(u64)skb->data + (offset & 0xff), *end = (u8 *)(u64)skb->data_end;
	if (from + bytes > end)
		return skb_load_bytes(skb, offset, to, bytes); /* a card may cut after the headers it knows */
	if (bytes == 2) { /* else words; the processor does not mind how they lie */
		*(u16 *)to = *(u16 *)from;
		return 0;
	}
	for (u32 i = 0; i < bytes / 4; i++)
		((u32 *)to)[i] = ((u32 *)from)[i];
	return 0;
}

SEC("tcx/ingress")
int count_filter(struct __sk_buff *skb)
{
	count(skb, skb->ifindex, copy_skb);
	return TC_NEXT;
}

/* Of a packet socket that is given all that comes in by an interface, and
 * takes none. */
INLINE int copy_socket(void *ctx, u32 offset, void *to, u32 bytes)
{
	if (!skb_load_bytes_relative(ctx, offset, to, bytes, FROM_MAC))
		return 0;
	return skb_load_bytes(ctx, offset, to, bytes); /* beyond the first piece */
}

SEC("socket")
int count_socket(struct __sk_buff *skb)
{
	count(skb, skb->ifindex, copy_socket);
	return 0;
}
