package ssd

import (
	"math"
	"math/rand/v2"
)

const (
	// spread is the odd number whose multiples are the keys: one to one, and all
	// over the key space.
	spread = 0x9e3779b97f4a7c15
	gather = 0xf1de83e19937733d
)

func keyOf(place int) uint64 { return (uint64(place) + 1) * spread }

// placeOf is the reverse: gather times spread is 1.
func placeOf(key uint64) int { return int(key*gather - 1) }

// rowOf is what a row holds at first: small whole numbers, so that sums of
// gradients are exact on every side.
func rowOf(place int, row []float32) {
	x := uint64(place)*spread + 1
	for i := range row {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		row[i] = float32(x % 64)
	}
}

// keys draws batches of distinct places, each of one lane only: a place belongs
// to lane place modulo lanes.
type keys struct {
	r        *rand.Rand
	n, lanes int
	zipf     *zipf // nil: evenly
	seen     map[int]struct{}
}

func newKeys(c *Config, stream uint64, skewed bool) *keys {
	k := &keys{r: rand.New(rand.NewPCG(c.Seed, stream)), n: c.Rows, lanes: c.Lanes, seen: map[int]struct{}{}}
	if skewed {
		k.zipf = newZipf(c.Rows, 0.99)
	}
	return k
}

// draw gives a place of a lane.
func (k *keys) draw(lane int) int {
	for {
		p := 0
		if k.zipf != nil {
			// Neighbours in rank are not neighbours on disk.
			p = int(uint64(k.zipf.draw(k.r)) * 0x9e3779b1 % uint64(k.n))
		} else {
			p = k.r.IntN(k.n)
		}
		if p += lane - p%k.lanes; p < k.n {
			return p
		}
	}
}

// batch fills keys with those of different places of a lane.
func (k *keys) batch(lane int, keys []uint64) {
	clear(k.seen)
	for i := range keys {
		for {
			p := k.draw(lane)
			if _, ok := k.seen[p]; !ok {
				k.seen[p] = struct{}{}
				keys[i] = keyOf(p)
				break
			}
		}
	}
}

// zipf draws ranks below n with probability proportional to 1/(rank+1)^theta,
// theta below 1: Gray et al., Quickly Generating Billion-Record Synthetic
// Databases, SIGMOD 1994.
type zipf struct {
	n                       float64
	theta, alpha, zetan, et float64
	half                    float64
}

func newZipf(n int, theta float64) *zipf {
	zeta := func(n int) float64 {
		// The sum, exactly where it is steep, and its integral beyond.
		const head = 1 << 16
		s := 0.0
		for i := 1; i <= min(n, head); i++ {
			s += math.Pow(float64(i), -theta)
		}
		if n > head {
			s += (math.Pow(float64(n)+.5, 1-theta) - math.Pow(head+.5, 1-theta)) / (1 - theta)
		}
		return s
	}
	z := &zipf{n: float64(n), theta: theta, alpha: 1 / (1 - theta), zetan: zeta(n)}
	z.et = (1 - math.Pow(2/z.n, 1-theta)) / (1 - zeta(2)/z.zetan)
	z.half = 1 + math.Pow(0.5, theta)
	return z
}

func (z *zipf) draw(r *rand.Rand) int {
	u := r.Float64()
	switch uz := u * z.zetan; {
	case uz < 1:
		return 0
	case uz < z.half:
		return 1
	}
	return min(int(z.n*math.Pow(z.et*u-z.et+1, z.alpha)), int(z.n)-1)
}
