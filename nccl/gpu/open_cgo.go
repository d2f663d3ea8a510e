//go:build cgo

package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
)

// place is this rank's machine.
type place struct {
	driver *cuda.Driver
	lib    *nccl.Library
}

// look says what this rank has.
func look(opt *Options) (place, offer) {
	at, mine := place{}, offer{Machine: opt.Machine}
	fail := func(err error) (place, offer) {
		mine.Why = said(err)
		return at, mine
	}
	var err error
	if at.driver, err = cuda.Load(opt.CUDA); err != nil {
		return fail(err)
	}
	if at.lib, err = nccl.Load(opt.NCCL); err != nil {
		return fail(err)
	}
	all, err := at.driver.Devices()
	if err != nil {
		return fail(err)
	}
	for _, card := range all {
		mine.Cards = append(mine.Cards, card.Bus)
	}
	mine.Version = at.lib.Version()
	return at, mine
}

// open takes the card, and at rank 0 makes the communicator's id.
func (at place) open(t *table, opt Options, card int) (*Group, []byte, error) {
	g := &Group{control: t.control, table: t, opt: opt, lib: at.lib, drain: drainTime, queue: make(chan *waiting, maxQueue)}
	g.memories.Store(&memorySet{})
	var err error
	if g.dev, err = at.driver.Open(card); err != nil {
		return g, nil, err
	}
	if free, total, err := g.dev.Room(); err != nil || free < opt.Room {
		return g, nil, errors.Join(err, fmt.Errorf("of the %d bytes of %s %d are free, and %d are needed", total, g.Info().Card, free, opt.Room))
	}
	if g.stream, err = g.dev.NewStream(); err != nil {
		return g, nil, err
	}
	if g.event, err = g.dev.NewEvent(false); err != nil {
		return g, nil, err
	}
	if t.control.Rank() != 0 {
		return g, nil, nil
	}
	var id nccl.ID
	err = g.dev.In(func() error {
		id, err = at.lib.UniqueID()
		return err
	})
	return g, id[:], err
}

// connect makes the communicator, with all others.
func (g *Group) connect(ctx context.Context, id []byte) error {
	within := bound(ctx, g.opt.Timeout)
	g.deadline = time.Now().Add(within)
	type made struct {
		comm *nccl.Comm
		err  error
	}
	done := make(chan made, 1)
	begin := func() {
		var m made
		err := g.dev.In(func() error {
			m.comm, m.err = g.lib.Init(nccl.ID(id), g.control.Rank(), g.control.Size())
			return nil
		})
		m.err = errors.Join(m.err, err)
		done <- m
	}
	late := fmt.Errorf("NCCL has not connected the %d ranks in %v: can they reach each other? NCCL_SOCKET_IFNAME names the network, NCCL_DEBUG=INFO has it say more", g.control.Size(), within)
	if g.lib.Returns() {
		begin()
	} else {
		go begin() // it returns when all are there; where that never is, it is left
	}
	select {
	case m := <-done:
		if m.err != nil {
			return m.err
		}
		g.comm = m.comm
	case <-time.After(within):
		return late
	}
	err := g.settle()
	if errors.Is(err, errDeadline) {
		err = late
	}
	return err
}

// release gives everything back; by force where something may be under way.
func (g *Group) release(force bool) error {
	if g == nil || g.dev == nil {
		return nil
	}
	var errs []error
	g.commMu.Lock()
	if g.comm != nil && !force {
		g.finish()
	}
	g.abort()
	writes := g.writes()
	g.commMu.Unlock()
	if writes != nil { // the driver would wait for the stream, and pinned memory must stay
		return writes
	}
	for m := range g.memories.Load().All() {
		errs = append(errs, m.Close())
	}
	errs = append(errs, g.scratch.close(g))
	if g.event != nil {
		errs = append(errs, g.event.Close())
	}
	if g.stream != nil {
		errs = append(errs, g.stream.Close())
	}
	return g.given(errors.Join(append(errs, g.dev.Close())...))
}

// finish ends the communicator in order, as far as all ranks do: where one is gone, or
// NCCL fails, it is left to abort, and nothing is lost, as no call is under way. With
// commMu.
func (g *Group) finish() {
	g.deadline = time.Now().Add(g.opt.Timeout)
	for m := range g.memories.Load().All() {
		m.known.forget(g)
	}
	g.scratch.known.forget(g)
	if g.in(func() error { return g.comm.Finalize() }) != nil {
		return
	}
	gone := false
	if g.poll(func() (bool, error) {
		busy, err := g.comm.State()
		if busy && !gone && g.control.Lost() != nil { // it may have finished before, and left
			gone, g.deadline = true, time.Now().Add(min(lostTime, g.left()))
		}
		return !busy, err
	}) != nil {
		return
	}
	comm := g.comm
	g.comm = nil
	_ = g.in(comm.Destroy)
}
