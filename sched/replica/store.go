package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"psrt/sched/coord"
	"psrt/sched/place"
)

const (
	storeTimeout = 3 * time.Second
	// leastAgain and mostAgain are pauses between tries while the store is away.
	leastAgain = 50 * time.Millisecond
	mostAgain  = time.Second
	// calm is the pause after a proposal that did not become the map.
	calm = 100 * time.Millisecond
)

// register takes the number: with a generation above all that had it before.
func (m *Member) register(ctx context.Context) error {
	for pause := leastAgain; ; pause = min(2*pause, mostAgain) {
		err := m.tryRegister(ctx)
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		m.storeAway(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// again says whether the store may answer otherwise the next time.
func again(err error) bool {
	return errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrConflict) || errors.Is(err, context.DeadlineExceeded)
}

func (m *Member) tryRegister(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := ServerKey(m.cfg.ID)
	was, err := m.cfg.Coord.Get(ctx, key)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return err
	}
	own := Registration{Server: m.cfg.Server, PID: os.Getpid()}
	own.Addr = m.Addr()
	own.Gen = uint64(time.Now().UnixMilli())
	if r, err := DecodeRegistration(key, was.Value); err == nil {
		own.Gen = max(own.Gen, r.Gen+1)
	}
	c, err := m.stored(ctx)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return err
	}
	if c != nil {
		if i := c.Index(m.cfg.ID); i >= 0 {
			own.Gen = max(own.Gen, c.Servers[i].Gen+1)
		}
	}
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	if _, err := DecodeRegistration(key, value); err != nil {
		return err
	}
	s, err := coord.NewSession(ctx, m.cfg.Coord, m.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	if _, err = m.cfg.Coord.CompareAndPut(ctx, key, value, was.Revision, s.Lease()); err != nil {
		s.Close()
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own, m.session = own, s
	m.core = newCore(own.node(), m.cfg.Times, m.cfg.Limits)
	return nil
}

// keepRegistered puts the registration again where its lease has ended, somebody
// has deleted it, or it has changed.
func (m *Member) keepRegistered(ctx context.Context) {
	for pause := leastAgain; ctx.Err() == nil; {
		m.mu.Lock()
		lost := m.session.Lost()
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-lost:
		case <-m.vanished:
		}
		if err := m.putAgain(ctx); err != nil && ctx.Err() == nil {
			if !errors.Is(err, coord.ErrConflict) {
				m.storeAway(err)
			}
			m.putSoon()
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, mostAgain)
			continue
		}
		pause = leastAgain
	}
}

// putSoon has the registration put again.
func (m *Member) putSoon() {
	select {
	case m.vanished <- struct{}{}:
	default:
	}
}

func (m *Member) putAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	m.mu.Lock()
	own, s := m.own, m.session
	m.mu.Unlock()
	key := ServerKey(m.cfg.ID)
	was, err := m.cfg.Coord.Get(ctx, key)
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return err
	}
	if r, err := DecodeRegistration(key, was.Value); err == nil && r.Gen > own.Gen {
		m.fail(fmt.Errorf("%w: server %d is process %d now", ErrSuperseded, own.ID, r.PID))
		return nil
	}
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	if s.Err() == nil {
		_, err := m.cfg.Coord.CompareAndPut(ctx, key, value, was.Revision, s.Lease())
		if !errors.Is(err, coord.ErrNoLease) {
			return err
		}
	}
	next, err := coord.NewSession(ctx, m.cfg.Coord, m.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	if _, err = m.cfg.Coord.CompareAndPut(ctx, key, value, was.Revision, next.Lease()); err != nil {
		next.Close()
		return err
	}
	m.mu.Lock()
	m.session = next
	m.mu.Unlock()
	s.Close()
	return nil
}

// SetWeight changes this server's share of the rows.
func (m *Member) SetWeight(weight float64) error {
	if !(weight >= place.MinWeight && weight <= place.MaxWeight) {
		return fmt.Errorf("replica: weight %g, want %g to %g; have a server leave to give it nothing", weight, place.MinWeight, place.MaxWeight)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own.Weight = weight
	m.putSoon()
	return nil
}

// stored is the map as the store has it.
func (m *Member) stored(ctx context.Context) (*place.Chains, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	kv, err := m.cfg.Coord.Get(ctx, KeyMap)
	if err != nil {
		return nil, err
	}
	return place.Decode(kv.Value, uint64(kv.Revision))
}

// followStore keeps up with the store's keys, for as long as there is one.
func (m *Member) followStore(ctx context.Context) {
	for pause := leastAgain; ; pause = min(2*pause, mostAgain) {
		began := time.Now()
		err := m.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > mostAgain {
			pause = leastAgain
		}
		if !errors.Is(err, coord.ErrLagging) && !errors.Is(err, coord.ErrCompacted) {
			m.storeAway(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// follow sees what is there, and then what changes, until the watch breaks.
func (m *Member) follow(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, storeTimeout)
	kvs, rev, err := m.cfg.Coord.List(listing, Prefix)
	cancel()
	if err != nil {
		return err
	}
	m.storeAway(nil)
	m.takeAll(kvs)
	w, err := m.cfg.Coord.Watch(ctx, Prefix, rev+1)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := range w.Events() {
		m.mu.Lock()
		m.take(e)
		m.mu.Unlock()
	}
	return w.Err()
}

// takeAll takes the keys that there are.
func (m *Member) takeAll(kvs []coord.KV) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.core.regs)
	clear(m.core.leaving)
	for _, kv := range kvs {
		m.take(coord.Event{KV: kv})
	}
	m.synced = true
	if _, there := m.core.regs[m.cfg.ID]; !there {
		m.putSoon()
	}
}

// take takes one change. With mu.
func (m *Member) take(e coord.Event) {
	if id, ok := numbered(e.Key, serverPrefix); ok {
		m.takeServer(id, e)
	} else if id, ok := numbered(e.Key, leavingPrefix); ok {
		m.takeLeaving(id, e)
	} else if e.Key == KeyMap && !e.Deleted {
		c, err := place.Decode(e.Value, uint64(e.Revision))
		if err != nil {
			m.fail(fmt.Errorf("replica: the shard map of revision %d: %w", e.Revision, err))
			return
		}
		m.learnt(c)
	}
}

func (m *Member) takeLeaving(id int, e coord.Event) {
	gen, err := uint64(0), error(nil)
	if len(e.Value) > 0 {
		gen, err = strconv.ParseUint(string(e.Value), 10, 64)
	}
	if e.Deleted || err != nil {
		delete(m.core.leaving, id)
		return
	}
	m.core.leaving[id] = gen
}

func (m *Member) takeServer(id int, e coord.Event) {
	own := m.core.self
	if e.Deleted {
		delete(m.core.regs, id)
		if id == own.Server {
			m.putSoon()
		}
		return
	}
	r, err := DecodeRegistration(e.Key, e.Value)
	if err != nil {
		m.note(err.Error())
		return
	}
	m.core.regs[id] = r
	switch {
	case id == own.Server && r.Gen > own.Gen:
		m.fail(fmt.Errorf("%w: server %d is process %d now", ErrSuperseded, id, r.PID))
	case id == own.Server && r.Gen < own.Gen:
		m.putSoon()
	}
}

// propose puts a map in the place of the one of an epoch. With mu.
func (m *Member) propose(ctx context.Context, next *place.Chains, epoch uint64) {
	m.proposing = true
	m.running.Go(func() {
		err := m.swap(ctx, next, epoch)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.proposing = false
		if err != nil {
			m.quiet = m.now() + calm
		}
	})
}

func (m *Member) swap(ctx context.Context, next *place.Chains, epoch uint64) error {
	value, err := json.Marshal(next)
	if err != nil {
		m.fail(err)
		return err
	}
	putting, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	rev, err := m.cfg.Coord.CompareAndPut(putting, KeyMap, value, int64(epoch), 0)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, coord.ErrConflict): // the winner's is on its way
		return err
	case errors.Is(err, coord.ErrTooLarge):
		m.fail(fmt.Errorf("replica: the shard map: %w; use fewer --groups", err))
		return err
	case err != nil:
		m.storeAway(err)
		return err
	}
	m.storeAway(nil)
	c, err := place.Decode(value, uint64(rev))
	if err != nil {
		m.fail(fmt.Errorf("replica: the map that was proposed: %w", err))
		return err
	}
	m.learn(c)
	return nil
}

// storeAway notes whether the store can be asked; nil: it can.
func (m *Member) storeAway(err error) {
	m.mu.Lock()
	was := m.away
	if m.away = err; was == nil {
		m.awaySince = time.Now()
	}
	m.mu.Unlock()
	switch {
	case was == nil && err != nil:
		m.note(fmt.Sprintf("the coordinator is away: training goes on, changes wait (%v)", err))
	case was != nil && err == nil:
		m.note("the coordinator is back")
	}
}

// forgetLeaving takes the wish back that has come true.
func (m *Member) forgetLeaving() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_, _ = m.cfg.Coord.Delete(ctx, LeavingKey(m.cfg.ID)) // nobody reads it but this number's next process
}
