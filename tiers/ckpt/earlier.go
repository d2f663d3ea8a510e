package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// verifyWithin bounds the search for a generation that is whole, after one could not be read.
const verifyWithin = 30 * time.Second

// mostEarlier bounds the generations that are tried in place of a damaged one.
const mostEarlier = 64

// Damaged reports whether an error says that committed files are missing or are not what was written.
func Damaged(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// Earlier finds the newest trainable generation below a number that test accepts, 0 for none. It
// tries at most 64, and ends with ctx.
func Earlier(ctx context.Context, location string, below uint64, test func(context.Context, *Model) error) uint64 {
	f, err := openFS(ctx, location)
	if err != nil {
		return 0
	}
	s, err := look(ctx, f)
	if err != nil || s.model {
		return 0
	}
	tried := 0
	for _, n := range slices.Backward(s.numbers) {
		if n >= below {
			continue
		}
		if tried++; tried > mostEarlier || ctx.Err() != nil {
			return 0
		}
		m, err := OpenAt(ctx, location, n)
		if err == nil && !m.WeightsOnly && test(ctx, m) == nil {
			return n
		}
	}
	return 0
}

// advise adds to the error of a newest generation that is damaged which one before it is there.
func advise(ctx context.Context, location string, err error) error {
	if !Damaged(err) || errors.Is(err, ErrNoModel) {
		return err
	}
	newest, damaged := Used(ctx, location)
	if damaged != nil { // HEAD is, and the generations may be whole
		return err
	}
	if n := Earlier(ctx, location, max(newest, 1), func(context.Context, *Model) error { return nil }); n > 0 {
		return fmt.Errorf("%w; generation %d before it is there: give %s@%d in place of %s", err, n, location, n, location)
	}
	return err
}

// LastIntact returns the newest intact generation before the model's, of the same run, 0 for none. It looks for one only where
// the model itself is damaged. It reads all bytes, for at most 30 s.
func (m *Model) LastIntact(ctx context.Context) (number uint64, damaged bool) {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	verify := func(ctx context.Context, o *Model) error {
		if o.Run != m.Run {
			return errors.New("ckpt: of another run")
		}
		return o.Verify(ctx, 2)
	}
	if !Damaged(verify(ctx, m)) {
		return 0, false
	}
	return Earlier(ctx, m.dir, m.Number, verify), true
}

// Advise adds the number of the last intact generation to the error of a damaged model.
func (m *Model) Advise(ctx context.Context, err error) error {
	if !Damaged(err) || m.Number == 0 {
		return err
	}
	if n, _ := m.LastIntact(ctx); n > 0 {
		return fmt.Errorf("%w; generation %d before it is whole: give %s@%d in place of %s", err, n, m.dir, n, m.dir)
	}
	return err
}
