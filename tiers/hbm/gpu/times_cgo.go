//go:build cgo

package gpu

import (
	"errors"
	"time"

	"psrt/tiers/hbm"
)

// Stamps of a piece: events around its copies to the device, its kernel, and its copies from there.
const (
	pieceBegun = iota
	inOver
	kernelOver
	outOver
	stampsOf
)

// stampEvery is of how many pieces of a lane one has stamps, and counts for all: an event costs the host
// about as much as a small copy.
const stampEvery = 8

func (a *arena) takeStamps() (err error) {
	if !a.dev.Times() {
		return nil
	}
	for s := range a.allStages() {
		for i := range s.stamps {
			if s.stamps[i], err = a.dev.NewTimedEvent(); err != nil {
				return err
			}
		}
	}
	return nil
}

// stamp puts one into the stream, where the piece is to have them.
func (a *arena) stamp(l *lane, s *stage, which int) error {
	if s.stamps[which] == nil || l.next%stampEvery != 1 {
		return nil
	}
	s.stamped = true
	if which == pieceBegun || which == inOver {
		return l.in.Record(s.stamps[which])
	}
	return l.stream.Record(s.stamps[which])
}

// run has a kernel run, between stamps, when what the piece brings is there.
func (a *arena) run(l *lane, s *stage, kernel, n int, argument []byte) error {
	if err := a.stamp(l, s, inOver); err != nil {
		return err
	}
	if l.in != l.stream {
		if err := errors.Join(l.in.Record(s.sent), l.stream.Wait(s.sent)); err != nil {
			return err
		}
	}
	if err := l.stream.Run(kernel, n, argument); err != nil {
		return err
	}
	return a.stamp(l, s, kernelOver)
}

// readStamps counts what a piece has taken that is over.
func (a *arena) readStamps(s *stage) error {
	if !s.stamped {
		return nil
	}
	s.stamped = false
	for i, to := range []*time.Duration{&a.times.In, &a.times.Kernels, &a.times.Out} {
		took, err := s.stamps[i+1].Since(s.stamps[i])
		if err != nil {
			return err
		}
		*to += stampEvery * took
	}
	return nil
}

func (a *arena) Times() hbm.Times { return a.times }
