package dram

import "fmt"

// Budget bounds what several tables of one goroutine take together.
type Budget struct {
	limit, taken int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Taken is what all tables have now, in bytes.
func (b *Budget) Taken() int64 {
	if b == nil {
		return 0
	}
	return b.taken
}

// take takes want bytes, or less where less is left, and at least least. A nil
// Budget has no end.
func (b *Budget) take(want, least int64) (int64, error) {
	if b == nil {
		return want, nil
	}
	if left := b.limit - b.taken; left < want {
		if want = left / 64 * 64; want < least {
			return 0, fmt.Errorf("%w: %d bytes more are needed, all tables have %d of %d",
				ErrBudget, least, b.taken, b.limit)
		}
	}
	b.taken += want
	return want, nil
}

// give gives back.
func (b *Budget) give(bytes int64) {
	if b != nil {
		b.taken -= bytes
	}
}
