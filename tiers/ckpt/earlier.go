package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

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
	newest, _ := Used(ctx, location)
	if n := Earlier(ctx, location, max(newest, 1), func(context.Context, *Model) error { return nil }); n > 0 {
		return fmt.Errorf("%w; generation %d before it is there: give %s@%d in place of %s", err, n, location, n, location)
	}
	return err
}
