//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"slices"

	"psrt/csrc/cuda"
)

// What is copied within a card to see how fast it is, and how often; the best counts,
// as others may use it.
const (
	measureBytes = 64 << 20
	measureTurns = 5
)

// Speeds is how fast the memory of each of the first so many cards is, to share work among
// unlike ones; one that cannot be measured is an error.
func Speeds(library string, cards int) ([]float64, error) {
	driver, err := cuda.Load(library)
	if err != nil {
		return nil, err
	}
	speeds, err := measured(driver, cards)
	if i := slices.Index(speeds, 0); err == nil && i >= 0 {
		err = fmt.Errorf("gpu: GPU %d is full or unusable: leave it out with CUDA_VISIBLE_DEVICES", i)
	}
	return speeds, err
}

// measured is how fast the memory of each of n cards is, in bytes a second: 0 of one that
// cannot be measured, which is full or unusable. It fails where all are.
func measured(driver *cuda.Driver, n int) ([]float64, error) {
	speeds, errs := make([]float64, n), make([]error, n)
	for i := range speeds {
		dev, err := driver.Open(i)
		if err == nil {
			if speeds[i], err = measure(dev); !errors.Is(err, ErrHangs) {
				err = errors.Join(err, dev.Close())
			}
		}
		if errs[i] = err; err != nil {
			speeds[i] = 0
		}
	}
	if slices.Contains(errs, nil) {
		return speeds, nil
	}
	return nil, errors.Join(errs...)
}

// measure gives nothing of a card back that hangs: the driver would wait.
func measure(dev *cuda.Device) (speed float64, err error) {
	at, err := dev.Alloc(2 * measureBytes)
	if err != nil {
		return 0, err
	}
	defer func() {
		if !errors.Is(err, ErrHangs) {
			err = errors.Join(err, dev.Free(at))
		}
	}()
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	first, err := dev.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	last, err := dev.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, last.Close()) }()
	for range measureTurns {
		if err := errors.Join(s.Record(first), s.Within(at.Add(measureBytes), at, measureBytes), s.Record(last), Await(last, PieceWithin)); err != nil {
			return 0, err
		}
		ms, err := last.Since(first)
		if err != nil {
			return 0, err
		}
		speed = max(speed, measureBytes/max(ms, 1e-6)*1e3)
	}
	return speed, nil
}
