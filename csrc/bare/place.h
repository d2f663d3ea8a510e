#ifndef PSRT_BARE_PLACE_H
#define PSRT_BARE_PLACE_H

#include "bare.h"

#define NO_ROW 0xffffffffu

enum {
	LINE = 64,
	SLOTS_AHEAD = 32,
	RING = 32, /* more than ahead_of gives; a power of two */
};

/* Of a key without a place it is slot 0, whose key is another. */
static inline psrt_bare_slot *slot_of(const psrt_bare_table *t, uint64_t key)
{
	uint64_t at = key * t->inverse - t->first;
	return t->slots + (at < t->count ? at : 0);
}

static inline uint32_t resolve(const psrt_bare_table *t, uint64_t key)
{
	const psrt_bare_slot *s = slot_of(t, key);
	return s->key == key ? s->row : NO_ROW;
}

/* The lines of a row, and no line more; of a long one the first, which the
 * hardware then follows. */
static inline void fetch(const float *row, int64_t floats, int write)
{
	uintptr_t at = (uintptr_t)row & ~(uintptr_t)(LINE - 1), end = (uintptr_t)(row + floats);
	if (end - at > 16 * LINE)
		end = at + 16 * LINE;
	for (; at < end; at += LINE) {
		if (write)
			__builtin_prefetch((const void *)at, 1);
		else
			__builtin_prefetch((const void *)at);
	}
}

static inline int64_t ahead_of(int64_t floats)
{
	return floats <= 32 ? 16 : floats <= 128 ? 8 : 4;
}

#endif
