#ifndef PSRT_PROBE_H
#define PSRT_PROBE_H

#include <stdint.h>

/* One place of Dedup's hash set; valid only where gen is the current call's. */
typedef struct {
	uint64_t key;
	uint32_t gen;
	int32_t pos;
} psrt_dedup_slot;

int32_t psrt_dedup64(psrt_dedup_slot *slots, uint64_t mask, uint32_t gen, const uint64_t *keys, int64_t n, int32_t *occ, uint64_t *uniq);
int32_t psrt_dedup32(psrt_dedup_slot *slots, uint64_t mask, uint32_t gen, const uint32_t *keys, int64_t n, int32_t *occ, uint32_t *uniq);

/* The same bijection as hash.go's mix. */
static inline uint64_t psrt_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

#endif
