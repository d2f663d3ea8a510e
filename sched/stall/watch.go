package stall

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Config of a Watch.
type Config struct {
	Rank  string        // "worker 2": who waits
	After time.Duration // how long a wait may last untold
	// Say is given a line; one call at a time.
	Say func(line string)
	// AskWithin bounds the question to others what they wait for; 0: 2 s.
	AskWithin time.Duration
}

// Watch is the register of one rank's waits. A nil Watch does nothing.
type Watch struct {
	cfg   Config
	start time.Time

	mu      sync.Mutex
	gates   []*Gate
	slow    map[*slow]struct{}
	sources []Ask

	looking sync.Mutex // guards told
	told    map[waitID]*told
}

// waitID tells waits apart.
type waitID struct {
	gate  *Gate
	since int64
	slow  *slow
	words string // of a source's
}

// told is a wait that was.
type told struct {
	last time.Duration // its age then
	wait Wait
	seen bool // at the present look
}

// open is a wait that is too long.
type open struct {
	id   waitID
	wait Wait
	ask  Ask
}

// slow is what Begin began.
type slow struct {
	since time.Time
	wait  Wait
	ask   Ask
}

const defaultAskWithin = 2 * time.Second

// New makes a watch; nil where nobody wants to be told (After of 0 or less).
func New(cfg Config) *Watch {
	if cfg.After <= 0 {
		return nil
	}
	if cfg.AskWithin <= 0 {
		cfg.AskWithin = defaultAskWithin
	}
	if cfg.Say == nil {
		cfg.Say = func(string) {}
	}
	return &Watch{cfg: cfg, start: time.Now(), slow: map[*slow]struct{}{}, told: map[waitID]*told{}}
}

// stamp is never 0.
func (w *Watch) stamp(at time.Time) int64 { return max(1, int64(at.Sub(w.start))) }

// Begin registers a call that may take long; end takes it out. ask may be nil.
func (w *Watch) Begin(kind Kind, on, what string, ask Ask) (end func()) {
	if w == nil {
		return func() {}
	}
	s := &slow{since: time.Now(), wait: Wait{Who: w.cfg.Rank, On: on, Kind: kind, What: what}, ask: ask}
	w.mu.Lock()
	w.slow[s] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.slow, s)
		w.mu.Unlock()
	}
}

// From adds a source of waits, asked at each look for those that last at least
// After; it must come back when its context ends.
func (w *Watch) From(source func(ctx context.Context, after time.Duration) []Wait) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, func(ctx context.Context) []Wait { return source(ctx, w.cfg.After) })
}

// looks are how many are made within After.
const looks = 4

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if w == nil {
		return
	}
	t := time.NewTicker(max(w.cfg.After/looks, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.look(ctx)
		}
	}
}

// look tells what is to be told.
func (w *Watch) look(ctx context.Context) {
	w.looking.Lock()
	defer w.looking.Unlock()
	var due []open
	all := w.overdue(ctx)
	for _, t := range w.told {
		t.seen = false
	}
	for _, o := range all {
		age := time.Duration(o.wait.Seconds * float64(time.Second))
		t := w.told[o.id]
		if t == nil {
			t = &told{}
			w.told[o.id] = t
		}
		if t.seen = true; t.last == 0 || age >= 2*t.last {
			t.last, t.wait = age, o.wait
			due = append(due, o)
		}
		t.wait.Seconds = o.wait.Seconds
	}
	var over []Wait
	for id, t := range w.told {
		if !t.seen {
			delete(w.told, id)
			t.wait.Because = nil
			over = append(over, t.wait)
		}
	}
	if ctx.Err() == nil {
		slices.SortFunc(over, longest)
		w.say("stall over: ", over)
	}
	w.say("stall: ", w.explain(ctx, due))
}

func (w *Watch) say(first string, all []Wait) {
	for _, wait := range alike(all, 0) {
		w.cfg.Say(first + wait.String())
	}
}

// longest sorts waits the longest first.
func longest(a, b Wait) int {
	return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Who, b.Who))
}

// Current is what waits too long now, the oldest first, with what is behind it.
func (w *Watch) Current(ctx context.Context) []Wait {
	if w == nil {
		return nil
	}
	return w.explain(ctx, w.overdue(ctx))
}

// Count is how many waits are too long now, and the age of the oldest.
func (w *Watch) Count(ctx context.Context) (n int, oldest time.Duration) {
	if w == nil {
		return 0, 0
	}
	all := w.overdue(ctx)
	if len(all) > 0 {
		oldest = time.Duration(all[0].wait.Seconds * float64(time.Second))
	}
	return len(all), oldest
}

// overdue finds the waits that are too long.
func (w *Watch) overdue(ctx context.Context) (all []open) {
	now := time.Now()
	w.mu.Lock()
	for _, g := range w.gates {
		if o, ok := g.overdue(w.stamp(now)); ok {
			all = append(all, o)
		}
	}
	for s := range w.slow {
		if age := now.Sub(s.since); age >= w.cfg.After {
			o := open{id: waitID{slow: s}, wait: s.wait, ask: s.ask}
			o.wait.Seconds = age.Seconds()
			all = append(all, o)
		}
	}
	sources := slices.Clone(w.sources)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, w.cfg.AskWithin)
	defer cancel()
	for _, source := range sources {
		for _, wait := range source(ctx) {
			if wait.Seconds >= w.cfg.After.Seconds() {
				all = append(all, open{id: waitID{words: wait.Who + "\x00" + wait.On + "\x00" + string(wait.Kind)}, wait: wait})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b open) int { return longest(a.wait, b.wait) })
	return all
}

// explain asks those that are waited for, all at once.
func (w *Watch) explain(ctx context.Context, due []open) []Wait {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.AskWithin)
	defer cancel()
	waits := make([]Wait, len(due))
	var asked sync.WaitGroup
	for i, o := range due {
		waits[i] = o.wait
		if o.ask != nil {
			asked.Go(func() { waits[i].Because = o.ask(ctx) })
		}
	}
	asked.Wait()
	return waits
}
