package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/combine"
	"psrt/sched/coord"
	"psrt/sched/heter"
	"psrt/sched/stall"
	"psrt/tiers/dense"
)

// company is the workers of a host that pull and push as one, in a job that survives them.
// They die together: when one is gone, the others give up what they are in the middle of
// and begin again under new generations of their numbers, as if all had been killed; those
// that live do so in the same process. A life of a company is one generation of each
// worker. The carrier says which, and where all go on: at the step at which the servers
// have the carrier, for it has pushed for all.
//
//	carrier                              the others
//	shows its card ("begins again")      give up when it is newer than their life's
//	waits for cards that are newer <---- show theirs
//	than those of the life before
//	takes over at the servers
//	shows the life, and From ----------> go on there
//	shows Addr ------------------------> join
//	gives up when a card is newer
//	than the life's
//
// Who has said that it leaves has pulled and pushed all that the host does; from then on
// nobody in the company needs the others. One that finds this begins a life on its own.
//
// Faults survived: the death of any of them, several or all, at any moment, also while they
// begin again; one that was only stopped, and wakes up before another process has its number
// or after; a link that breaks between two that live.
type company struct {
	w       *worker
	carrier int
	members []int
	give    func(error) // up this life
	over    bool        // nobody needs the others any more
	began   *wentOn     // of the carrier: where it goes on

	mu      sync.Mutex
	cards   map[int]companyCard
	life    map[int]int // of the carrier: the generations that are in it; nil: not known yet
	joined  int         // of the others: the carrier's generation; 0: likewise
	settled bool        // nobody is to give up for another any more
	failure error       // of whoever follows the cards, for good
	changed chan struct{}
}

// companyCard is what a worker shows the others of its company.
type companyCard struct {
	Generation int  `json:"generation"`
	Over       bool `json:"over,omitempty"` // it needs nobody
	// Of the carrier: the newest life that there is or was, by worker, without itself;
	// where this one goes on, and where it listens.
	Life map[int]int `json:"life,omitempty"`
	From *wentOn     `json:"from,omitempty"`
	Addr string      `json:"addr,omitempty"`
}

// wentOn is an inherited on its way.
type wentOn struct {
	From  uint64 `json:"from"`
	Fresh uint64 `json:"fresh"`
	Clean bool   `json:"clean"`
	Exact bool   `json:"exact"` // see pushedBefore
}

// BeginAgain is the end of a worker's life because of another's: it is to begin again, under
// the next generation of its number.
type BeginAgain struct{ Cause error }

func (e *BeginAgain) Error() string {
	return fmt.Sprintf("train: the workers of this host begin again: %v", e.Cause)
}

func (e *BeginAgain) Unwrap() error { return e.Cause }

// Legacy is what a life leaves to the next one in the same process, where it saves the others
// from having nobody who has it.
type Legacy struct{ dense legacyDense }

// legacyDense is a collective's replica.
type legacyDense struct {
	replica *dense.Vector
	applied uint64
	past    history
}

// Close gives it back, where nobody takes it.
func (l *Legacy) Close() error {
	r := l.dense.replica
	l.dense = legacyDense{}
	if r == nil {
		return nil
	}
	return r.Close()
}

// errBegins: another of the company has begun a life that this one is not in.
type errBegins int

func (e errBegins) Error() string { return fmt.Sprintf("worker %d begins again", int(e)) }

// errOver: another of the company needs nobody any more.
type errOver int

func (e errOver) Error() string { return fmt.Sprintf("worker %d leaves", int(e)) }

func companyPrefix(carrier int) string { return fmt.Sprintf("company/%d/", carrier) }

func (c *company) key(worker int) string { return companyPrefix(c.carrier) + strconv.Itoa(worker) }

// enterCompany shows that this process is there, and waits as the carrier for all others.
func (w *worker) enterCompany(ctx context.Context, members []int, give func(error)) (*company, error) {
	c := &company{w: w, carrier: members[0], members: members, give: give, cards: map[int]companyCard{}, changed: make(chan struct{})}
	for _, m := range members {
		if w.rank.Generation < 2 {
			break
		}
		said, err := coord.Party{Name: leavingName, N: w.job.Workers, ID: m}.Said(ctx, w.rank.Coord)
		if err != nil {
			return nil, err
		}
		c.over = c.over || said != nil
	}
	card := companyCard{Generation: w.rank.Generation, Over: c.over}
	if c.carries() {
		had, err := c.had(ctx)
		if err != nil {
			return nil, err
		}
		card.Life = had.Life
	}
	if err := c.show(ctx, card); err != nil || c.over {
		return c, err
	}
	go rdma.Guarded(w.rank.Host.OnPanic(), func() { c.follow(ctx) })()
	if !c.carries() {
		return c, nil
	}
	life := map[int]int{}
	err := c.await(ctx, "to come", func(cards map[int]companyCard) (missing int, err error) {
		for _, m := range members[1:] {
			if cards[m].Generation <= card.Life[m] {
				return m, nil
			}
			life[m] = cards[m].Generation
		}
		return -1, nil
	})
	if err != nil {
		return nil, err
	}
	c.change(func() { c.life = life })
	return c, nil
}

func (c *company) carries() bool { return c.w.rank.Index == c.carrier }

// again says whether the company has had another life.
func (c *company) again() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.life {
		if g > 1 {
			return true
		}
	}
	return c.w.rank.Generation > 1
}

// had is the card that the process before this one left.
func (c *company) had(ctx context.Context) (card companyCard, err error) {
	kv, err := c.w.rank.Coord.Get(ctx, c.key(c.w.rank.Index))
	if errors.Is(err, coord.ErrNotFound) {
		return card, nil
	}
	if err == nil {
		err = json.Unmarshal(kv.Value, &card)
	}
	return card, err
}

func (c *company) show(ctx context.Context, card companyCard) error {
	return putNewest(ctx, c.w.rank.Coord, c.key(c.w.rank.Index), card.Generation, card)
}

// tell says as the carrier where all go on.
func (c *company) tell(ctx context.Context, from *wentOn, addr string) error {
	return c.show(ctx, companyCard{Generation: c.w.rank.Generation, Life: c.life, From: from, Addr: addr})
}

// from waits for the life that this process is in, and for where it goes on.
func (c *company) from(ctx context.Context) (*wentOn, error) {
	var from *wentOn
	err := c.await(ctx, "to say where it goes on for its host", func(cards map[int]companyCard) (int, error) {
		card := cards[c.carrier]
		if card.From == nil || card.Life[c.w.rank.Index] < c.w.rank.Generation {
			return c.carrier, nil
		}
		if card.Life[c.w.rank.Index] > c.w.rank.Generation {
			return 0, client.ErrTakenOver
		}
		from, c.joined = card.From, card.Generation
		return -1, nil
	})
	return from, err
}

// addr waits for where the carrier listens in this life.
func (c *company) addr(ctx context.Context) (addr string, err error) {
	err = c.await(ctx, "to say where it pulls and pushes for its host", func(cards map[int]companyCard) (int, error) {
		card := cards[c.carrier]
		if card.Generation == c.joined {
			addr = card.Addr
		}
		if addr == "" {
			return c.carrier, nil
		}
		return -1, nil
	})
	return addr, err
}

// await returns when nobody is missing any more.
func (c *company) await(ctx context.Context, what string, look func(cards map[int]companyCard) (missing int, err error)) error {
	limit := max(c.w.rank.timeout(), lostFor)
	defer c.w.rank.Stall.Begin(stall.Barrier, "the other workers of its host", what, nil)()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		c.mu.Lock()
		missing, err := look(c.cards)
		changed := c.changed
		if err == nil {
			err = c.failure
		}
		c.mu.Unlock()
		if err != nil || missing < 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("train: waiting for worker %d %s: %w", missing, what, context.Cause(ctx))
		}
	}
}

// settle is where nobody is to give up for another any more.
func (c *company) settle() {
	if c != nil {
		c.change(func() { c.settled = true })
	}
}

// change changes something, and gives this life up where it is not the newest any more.
func (c *company) change(f func()) {
	c.mu.Lock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
	err := c.broken()
	c.mu.Unlock()
	if err != nil {
		c.give(&BeginAgain{err})
	}
}

// broken says why this life is over. With mu.
func (c *company) broken() error {
	if c.settled {
		return nil
	}
	for m, card := range c.cards {
		switch {
		case m == c.w.rank.Index:
		case card.Over:
			return errOver(m)
		case c.life != nil && card.Generation > c.life[m], m == c.carrier && c.joined > 0 && card.Generation > c.joined:
			return errBegins(m)
		}
	}
	return nil
}

// follow takes the cards that come, until ctx ends.
func (c *company) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.watch(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, coord.ErrClosed), errors.Is(err, errCard):
			c.change(func() { c.failure = err })
			return
		default:
			select {
			case <-ctx.Done():
			case <-time.After(lookForCards):
			}
		}
	}
}

func (c *company) watch(ctx context.Context) error {
	prefix := companyPrefix(c.carrier)
	past, rev, err := c.w.rank.Coord.List(ctx, prefix)
	if err != nil {
		return err
	}
	take := func(kv coord.KV) error {
		worker, err := strconv.Atoi(strings.TrimPrefix(kv.Key, prefix))
		if err != nil || !slices.Contains(c.members, worker) {
			return nil // none of this company's
		}
		var card companyCard
		if err := json.Unmarshal(kv.Value, &card); err != nil {
			return fmt.Errorf("%w: key %s: %w; run the same psrt everywhere", errCard, kv.Key, err)
		}
		c.change(func() { c.cards[worker] = card })
		return nil
	}
	for _, kv := range past {
		if err := take(kv); err != nil {
			return err
		}
	}
	w, err := c.w.rank.Coord.Watch(ctx, prefix, rev+1)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := range w.Events() {
		if e.Deleted {
			continue
		}
		if err := take(e.KV); err != nil {
			return err
		}
	}
	return w.Err()
}

// first is goesOn of one whose number no process had before.
func (c *company) first(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if !c.carries() {
		_, err := c.from(ctx)
		return err
	}
	c.began = &wentOn{From: clock.None, Exact: true}
	return c.tell(ctx, c.began, "")
}

// cause is what an error of a link, or of the hub, is to this life. To wait for somebody once
// more who lives, and does not come, helps nobody.
func (c *company) cause(err error) error {
	var gone *heter.LostError
	if errors.As(err, &gone) && !errors.Is(err, combine.ErrLate) {
		return &BeginAgain{err}
	}
	return err
}

// unlinked waits, where the carrier is not reached, for the life in which it is.
func (c *company) unlinked(ctx context.Context, why error) error {
	if errors.Is(why, combine.ErrNotShared) {
		return why
	}
	<-ctx.Done()
	return why
}

// goesOn is where the processes before stood, of a worker of a company: the carrier asks
// servers and tells the others. Nil: nobody has begun.
func (c *company) goesOn(ctx context.Context) (in *inherited, exact bool, err error) {
	switch {
	case c.over && !c.carries():
		return &inherited{from: clock.None}, true, nil
	case c.carries():
		if in, exact, err = c.w.askServers(ctx); err != nil || c.over {
			return in, exact, err
		}
		c.began = &wentOn{in.from, in.fresh, in.clean, exact}
		return in, exact, c.tell(ctx, c.began, "")
	}
	from, err := c.from(ctx)
	switch {
	case err != nil:
		return nil, false, err
	case from.From == clock.None: // of the carrier's first process: the one before this died before anything began
		return nil, true, nil
	}
	return &inherited{from: from.From, fresh: from.Fresh, clean: from.Clean}, from.Exact, nil
}
