package stall

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Ask finds out what those wait for that somebody waits for.
type Ask func(ctx context.Context) []Wait

// Gate is a place where one goroutine waits again and again. A nil Gate costs a
// comparison.
type Gate struct {
	w         *Watch
	depth     int          // of Enter; the owner's
	always    *Wait        // what every wait is; nil: the owner describes each
	since     atomic.Int64 // after Watch.start, in ns; 0: nobody waits
	described atomic.Int64 // the since that wait and ask are of

	mu   sync.Mutex // guards what follows
	wait Wait
	ask  Ask
}

// Gate makes one, until the watch ends.
func (w *Watch) Gate() *Gate { return w.gate(nil) }

func (w *Watch) gate(always *Wait) *Gate {
	if w == nil {
		return nil
	}
	g := &Gate{w: w, always: always}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates = append(w.gates, g)
	return g
}

// GateFor makes one where all waits are for the same: their owner, which may not
// wake, need not describe them.
func (w *Watch) GateFor(kind Kind, on, what string) *Gate {
	return w.gate(&Wait{On: on, Kind: kind, What: what})
}

// Close forgets the gate.
func (g *Gate) Close() {
	if g == nil {
		return
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	for i, other := range g.w.gates {
		if other == g {
			g.w.gates = append(g.w.gates[:i], g.w.gates[i+1:]...)
			return
		}
	}
}

// Enter begins a wait; one within another is part of it.
func (g *Gate) Enter(now time.Time) {
	if g == nil {
		return
	}
	if g.depth++; g.depth == 1 {
		g.since.Store(g.w.stamp(now))
	}
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	if g == nil {
		return
	}
	if g.depth--; g.depth == 0 {
		g.since.Store(0)
	}
}

// Moved says that something has arrived: the wait begins anew.
func (g *Gate) Moved() {
	if g != nil && g.depth > 0 {
		g.since.Store(g.w.stamp(time.Now()))
	}
}

// Due says that the wait has become too long and is not described yet.
func (g *Gate) Due() bool {
	if g == nil {
		return false
	}
	since := g.since.Load()
	return since != 0 && g.always == nil && g.described.Load() != since && g.w.stamp(time.Now())-since >= int64(g.w.cfg.After)
}

// Describe says what the present wait is. Who and Seconds are filled in; ask may be
// nil.
func (g *Gate) Describe(wait Wait, ask Ask) {
	g.mu.Lock()
	g.wait, g.ask = wait, ask
	g.mu.Unlock()
	g.described.Store(g.since.Load())
}

// overdue is the wait, where it is too long.
func (g *Gate) overdue(now int64) (open, bool) {
	since := g.since.Load()
	if since == 0 || now-since < int64(g.w.cfg.After) {
		return open{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := open{id: waitID{gate: g, since: since}, wait: g.wait, ask: g.ask}
	if g.always != nil {
		o.wait, o.ask = *g.always, nil
	} else if g.described.Load() != since {
		if now-since < 2*int64(g.w.cfg.After)+int64(time.Second) {
			return open{}, false // the owner is about to wake
		}
		o.wait, o.ask = Wait{Kind: Completion, What: "inside a call of the transport"}, nil
	}
	if o.wait.Who == "" {
		o.wait.Who = g.w.cfg.Rank
	}
	o.wait.Seconds = time.Duration(now - since).Seconds()
	return o, true
}
