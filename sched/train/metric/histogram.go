package metric

import "math"

// histogram counts positives and negatives by bucket of the score. Buckets
// are uniform within an octave of the distance to the nearer end of [0,1]:
// scores near 0 (rare clicks) and near 1 are told apart as well as those in
// the middle, and any octave that the scores fill has octaveBuckets to order
// them. So the bound on the AUC's error, tied/2 of pairs, is some 1/(2 *
// octaveBuckets) = 6e-5 or better unless scores crowd within a small part of
// an octave.
type histogram struct {
	// pages[p] is one octave, made at its first score. Pages 0 to octaves-1
	// go up from 0 to 1/2, the others from 1/2 to 1.
	pages [2 * octaves]*page
}

type page [octaveBuckets]counts

type counts struct{ positives, negatives uint64 }

const (
	octaveBits    = 13
	octaveBuckets = 1 << octaveBits
	// octaves below 1/2; the lowest reaches down to 0. Float32 probabilities
	// near 1 have no finer steps than 2^-24 anyway.
	octaves = 24
	buckets = 2 * octaves * octaveBuckets
)

// bucket numbers a score; the number never falls as the score rises. Scores
// outside [0,1] count as its nearer end.
//
// Preconditions: the score is no NaN.
func bucket(score float32) int {
	if score < 0.5 {
		return lower(score)
	}
	return buckets - 1 - lower(1-score)
}

// lower numbers a distance of at most 1/2 to the nearer end.
func lower(distance float32) int {
	const lowest = 1.0 / (1 << (octaves + 1))
	// Half itself belongs to the highest octave, at its top.
	if distance >= 0.5 {
		return octaves*octaveBuckets - 1
	}
	if !(distance >= lowest) {
		return 0
	}
	const mantissaBits, bias = 23, 127
	// The exponent of lowest becomes 0: octave and bucket within it are
	// neighbours in the float's own bits.
	bits := math.Float32bits(distance) - (bias-octaves-1)<<mantissaBits
	return int(bits >> (mantissaBits - octaveBits))
}

func (h *histogram) add(score float32, positive bool) {
	c := h.at(bucket(score))
	if positive {
		c.positives++
	} else {
		c.negatives++
	}
}

func (h *histogram) at(bucket int) *counts {
	p := h.pages[bucket>>octaveBits]
	if p == nil {
		p = new(page)
		h.pages[bucket>>octaveBits] = p
	}
	return &p[bucket&(octaveBuckets-1)]
}

// each visits the buckets that hold something, by ascending score.
func (h *histogram) each(visit func(bucket int, c counts)) {
	for i, p := range h.pages {
		if p == nil {
			continue
		}
		for j, c := range p {
			if c != (counts{}) {
				visit(i<<octaveBits|j, c)
			}
		}
	}
}

func (h *histogram) pairs() pairs {
	var count pairs
	h.each(func(_ int, c counts) { count.add(c.positives, c.negatives) })
	return count
}
