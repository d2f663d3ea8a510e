/* RoCE v2: from the first byte of a frame to what is in an InfiniBand packet.
 * The one parser of all programs that see packets, however they are attached:
 * each gives its own way to copy bytes out of its context.
 *
 *   Ethernet (VLAN) | IPv4 or IPv6 | UDP to 4791 | BTH | headers by opcode | payload, padding | ICRC
 *
 * BTH (InfiniBand Architecture Specification 1.4, 9.2):
 *
 *   opcode 8 | solicited 1, migration 1, padding 2, version 4 | partition 16
 *   reserved 8 | destination queue pair 24
 *   acknowledge 1, reserved 7 | PSN 24 */
#pragma once
#include "kernel.h"

enum {
	ROCE_PORT = 4791,
	UDP_BYTES = 8,
	BTH_BYTES = 12,
	ICRC_BYTES = 4,
	DETH_BYTES = 8, /* more in every datagram */

	/* An opcode is a transport and an operation. */
	TRANSPORT = 0xe0,
	RELIABLE = 0x00,
	UNRELIABLE = 0x20,
	DATAGRAM = 0x60,

	/* What kinds says of an operation, beside the words of its headers. */
	WORDS = 7,
	DATA = 8,
	ENDS = 16,   /* a message */
	ANSWER = 32, /* to one of our requests: numbered by our sequence */
};

static const u8 kinds[32] = {
	[0x00] = DATA,		   /* send, first */
	[0x01] = DATA,		   /* middle */
	[0x02] = DATA | ENDS,	   /* last */
	[0x03] = DATA | ENDS | 1,  /* last, with an immediate */
	[0x04] = DATA | ENDS,	   /* only */
	[0x05] = DATA | ENDS | 1,  /* only, with an immediate */
	[0x06] = DATA | 4,	   /* write, first: address, key and length */
	[0x07] = DATA,		   /* middle */
	[0x08] = DATA | ENDS,	   /* last */
	[0x09] = DATA | ENDS | 1,  /* last, with an immediate */
	[0x0a] = DATA | ENDS | 4,  /* only */
	[0x0b] = DATA | ENDS | 5,  /* only, with an immediate */
	[0x0d] = DATA | ANSWER | 1, /* read's answer, first */
	[0x0e] = DATA | ANSWER,	   /* middle */
	[0x0f] = DATA | ENDS | ANSWER | 1, /* last */
	[0x10] = DATA | ENDS | ANSWER | 1, /* only */
	[0x13] = DATA | ENDS | 7,  /* compare and swap: its operands are headers */
	[0x14] = DATA | ENDS | 7,  /* fetch and add */
	[0x16] = DATA | ENDS | 1,  /* send, last, with invalidation */
	[0x17] = DATA | ENDS | 1,  /* only, with invalidation */
	/* Nothing: requests to read, acknowledgements, what is reserved. */
};

/* Where a packet comes from and goes to. */
struct roce_key {
	u8 source[16];
	u32 queue_pair;
	u32 interface;
};

struct roce_packet {
	struct roce_key key; /* its interface is the caller's */
	u32 psn;
	u32 bytes; /* of payload */
	u8 ends;
	u8 answer;
	u8 numbered; /* each PSN comes once, or again */
};

/* LOOK_...: what a frame is. */
enum look { LOOK_OTHER, LOOK_DATA, LOOK_BROKEN };

/* Copies 2 or 4n bytes of the frame to a place for words, or fails where it
 * has not so many. */
typedef int (*copy_out)(void *ctx, u32 offset, void *to, u32 bytes);

INLINE u32 big24(const u8 *b) { return (u32)b[0] << 16 | (u32)b[1] << 8 | b[2]; }
INLINE u32 big16(const u8 *b) { return (u32)b[0] << 8 | b[1]; }

INLINE enum look parse(struct roce_packet *p, void *ctx, copy_out copy)
{
	u8 b[40] __attribute__((aligned(8)));
	u32 at = 14;
	if (copy(ctx, at - 2, b, 2))
		return LOOK_OTHER;
	u32 ether = big16(b);
	if (ether == ETHER_VLAN || ether == ETHER_VLAN_OUTER) {
		at += 4;
		if (copy(ctx, at - 2, b, 2))
			return LOOK_OTHER;
		ether = big16(b);
	}

	__builtin_memset(p->key.source, 0, 16);
	if (ether == ETHER_IPV4) {
		if (copy(ctx, at, b, 20) || b[9] != PROTOCOL_UDP || (b[0] >> 4) != 4 || (b[0] & 15) < 5)
			return LOOK_OTHER;
		if ((big16(b + 6) & 0x3fff)) /* a fragment; RoCE forbids them */
			return LOOK_OTHER;
		p->key.source[10] = p->key.source[11] = 0xff;
		__builtin_memcpy(p->key.source + 12, b + 12, 4);
		at += (b[0] & 15) * 4;
	} else if (ether == ETHER_IPV6) {
		if (copy(ctx, at, b, 40) || b[6] != PROTOCOL_UDP)
			return LOOK_OTHER;
		__builtin_memcpy(p->key.source, b + 8, 16);
		at += 40;
	} else {
		return LOOK_OTHER;
	}

	if (copy(ctx, at, b, UDP_BYTES) || big16(b + 2) != ROCE_PORT)
		return LOOK_OTHER;
	u32 bytes = big16(b + 4);
	if (copy(ctx, at + UDP_BYTES, b, BTH_BYTES))
		return LOOK_BROKEN;

	u32 operation = b[0] & 31, transport = b[0] & TRANSPORT;
	u8 kind = kinds[operation];
	u32 heads = UDP_BYTES + BTH_BYTES + (kind & WORDS) * 4 + ICRC_BYTES + (b[1] >> 4 & 3);
	if (!(kind & DATA))
		return LOOK_OTHER;
	if (transport == DATAGRAM) {
		if (operation != 4 && operation != 5)
			return LOOK_OTHER;
		heads += DETH_BYTES;
	} else if (transport == UNRELIABLE) {
		if (operation > 0x0b)
			return LOOK_OTHER;
	} else if (transport != RELIABLE) {
		return LOOK_OTHER;
	}
	if (bytes < heads)
		return LOOK_BROKEN;
	p->bytes = bytes - heads;
	p->key.queue_pair = big24(b + 5);
	p->psn = big24(b + 9);
	p->ends = (kind & ENDS) != 0;
	p->answer = (kind & ANSWER) != 0;
	p->numbered = transport == RELIABLE;
	return LOOK_DATA;
}
