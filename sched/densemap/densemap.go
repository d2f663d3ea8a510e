package densemap

import "fmt"

// BlockFloats is the largest block: 64 KiB, large enough that a request's
// overhead vanishes and small enough that a few hundred thousand parameters
// spread over several servers.
const BlockFloats = 16384

// MaxFloats bounds a dense vector (16 GiB).
const MaxFloats = 4 << 30

// Range is a run of the dense vector under one rule: "grad" (the dense
// optimizer) or "ema" (running averages).
type Range struct {
	Offset int    `json:"offset"`
	Len    int    `json:"len"`
	Rule   string `json:"rule"`
}

// Block is the unit of placement, versioning and transfer.
type Block struct {
	Index  int
	Offset int
	Len    int
	Rule   string
}

// Cut cuts ranges, which must be adjacent and in order, into blocks. Adjacent
// ranges of the same rule are joined first.
func Cut(ranges []Range) ([]Block, error) {
	var joined []Range
	next := 0
	for i, r := range ranges {
		if r.Offset != next || r.Len <= 0 || r.Len > MaxFloats-next {
			return nil, fmt.Errorf("densemap: range %d is [%d, +%d), want it to begin at %d with a positive length", i, r.Offset, r.Len, next)
		}
		if r.Rule != "grad" && r.Rule != "ema" {
			return nil, fmt.Errorf("densemap: range %d has rule %q, known are grad and ema", i, r.Rule)
		}
		next += r.Len
		if n := len(joined); n > 0 && joined[n-1].Rule == r.Rule {
			joined[n-1].Len += r.Len
		} else {
			joined = append(joined, r)
		}
	}
	var blocks []Block
	for _, r := range joined {
		for off := 0; off < r.Len; off += BlockFloats {
			blocks = append(blocks, Block{Index: len(blocks), Offset: r.Offset + off, Len: min(BlockFloats, r.Len-off), Rule: r.Rule})
		}
	}
	return blocks, nil
}

// Total is the vector's length.
func Total(ranges []Range) int {
	n := 0
	for _, r := range ranges {
		n += r.Len
	}
	return n
}
