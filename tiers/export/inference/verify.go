package inference

import (
	"context"
	"encoding/binary"
	"syscall"

	"psrt/tiers/export/outdir"
)

// Range calls f for all rows, in the order of their hashes. It checks every
// block again, and the order of all rows. weights is f's until it returns.
func (t *Table) Range(ctx context.Context, f func(key uint64, weights []float32) error) (err error) {
	if t.data == nil {
		return ErrClosed
	}
	defer t.guard(&err)()
	t.expect(syscall.MADV_SEQUENTIAL)
	defer t.expect(syscall.MADV_RANDOM)
	weights := make([]float32, t.Layout.Dim)
	seen, last := int64(0), uint64(0)
	for n := range t.blocks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b := t.at(n)
		if err := t.check(n, b); err != nil {
			return err
		}
		rows := int(binary.LittleEndian.Uint32(b[4:]))
		for i := range rows {
			hash := binary.LittleEndian.Uint64(b[blockHead+8*i:])
			if seen > 0 && hash <= last || t.homes == 0 || home(hash, t.homes) > n {
				return outdir.Corrupt(t.path, "row %d of block %d is out of order", i, n)
			}
			last = hash
			seen++
			t.Layout.Decode(weights, t.row(b, i))
			if err := f(Key(hash), weights); err != nil {
				return err
			}
		}
	}
	if seen != t.rows {
		return outdir.Corrupt(t.path, "it has %d rows, its footer says %d", seen, t.rows)
	}
	return nil
}

// Verify reads every block, and looks every row up as Gather would.
func (t *Table) Verify(ctx context.Context) error {
	return t.Range(ctx, func(key uint64, _ []float32) error {
		row, err := t.find(Hash(key))
		if err == nil && row == nil {
			err = outdir.Corrupt(t.path, "key %d is in the file and cannot be found", key)
		}
		return err
	})
}
