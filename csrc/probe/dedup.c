#include "probe.h"

/* Keys prefetched ahead of the one looked up: enough to cover one memory
 * latency at about 5 ns a key. A power of two. */
enum { AHEAD = 16 };

/* The first loop turn only prefetches; from then on the hash of key i + AHEAD is
 * computed, its slot prefetched, and key i is resolved from the remembered
 * hash. Slots are resolved strictly in order: numbers follow first occurrence. */
#define DEDUP(NAME, KEY)                                                                                   \
	int32_t NAME(psrt_dedup_slot *slots, uint64_t mask, uint32_t gen, const KEY *keys, int64_t n,      \
		     int32_t *occ, KEY *uniq)                                                              \
	{                                                                                                  \
		uint64_t ring[AHEAD];                                                                      \
		int32_t found = 0;                                                                         \
		for (int64_t i = 0; i < n && i < AHEAD; i++) {                                             \
			ring[i] = psrt_mix(keys[i]) & mask;                                                \
			__builtin_prefetch(&slots[ring[i]], 1);                                            \
		}                                                                                          \
		for (int64_t i = 0; i < n; i++) {                                                          \
			uint64_t at = ring[i % AHEAD];                                                     \
			KEY key = keys[i];                                                                 \
			if (i + AHEAD < n) {                                                               \
				uint64_t next = psrt_mix(keys[i + AHEAD]) & mask;                          \
				__builtin_prefetch(&slots[next], 1);                                       \
				ring[i % AHEAD] = next;                                                    \
			}                                                                                  \
			while (slots[at].gen == gen && slots[at].key != key)                               \
				at = (at + 1) & mask;                                                      \
			if (slots[at].gen != gen) {                                                        \
				slots[at] = (psrt_dedup_slot){key, gen, found};                            \
				uniq[found] = key;                                                         \
				found++;                                                                   \
			}                                                                                  \
			occ[i] = slots[at].pos;                                                            \
		}                                                                                          \
		return found;                                                                              \
	}

DEDUP(psrt_dedup64, uint64_t)
DEDUP(psrt_dedup32, uint32_t)
