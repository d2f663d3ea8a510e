package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/sched/client"
	"psrt/sched/coord"
)

const collectivePrefix = "collective/"

func collectiveKey(worker int) string { return collectivePrefix + strconv.Itoa(worker) }

// card is what a worker tells of its place in the all-reduce: where it listens, and
// the newest group that it is in or wants to be in. Whose group has broken asks for
// the next one; all others follow.
type card struct {
	Addr       string `json:"addr"`
	Epoch      uint64 `json:"epoch"`
	Generation int    `json:"generation,omitempty"`
	// Host is the same for workers whose sums are made before those with others are; ""
	// unknown.
	Host string `json:"host,omitempty"`
}

// errSuperseded: a worker asks for a newer group.
var errSuperseded = errors.New("train: a worker asks for a newer group")

// roll is the cards of all workers, as the coordinator has them.
type roll struct {
	coord coord.Coordinator
	self  int

	mu      sync.Mutex
	cards   []card        // Epoch 0: none yet
	changed chan struct{} // closed with the next change
	failure error         // of whoever follows, for good
}

func newRoll(c coord.Coordinator, self, workers int) *roll {
	return &roll{coord: c, self: self, cards: make([]card, workers), changed: make(chan struct{})}
}

// follow takes what comes until ctx ends; news is called after each change.
func (r *roll) follow(ctx context.Context, news func()) {
	for ctx.Err() == nil {
		err := r.watch(ctx, news)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, coord.ErrClosed), errors.Is(err, errCard):
			r.change(func() { r.failure = err })
			return
		default:
			select {
			case <-ctx.Done():
			case <-time.After(lookForCards):
			}
		}
	}
}

// errCard: another version of psrt, or no psrt, has written it.
var errCard = errors.New("train: a worker's place in the all-reduce is not understood")

// lookForCards is between tries to reach a coordinator that is away or gives errors.
const lookForCards = 500 * time.Millisecond

func (r *roll) watch(ctx context.Context, news func()) error {
	past, rev, err := r.coord.List(ctx, collectivePrefix)
	if err != nil {
		return err
	}
	take := func(kv coord.KV) error {
		worker, err := strconv.Atoi(strings.TrimPrefix(kv.Key, collectivePrefix))
		if err != nil || worker < 0 || worker >= len(r.cards) {
			return nil // none of this job's
		}
		var c card
		if err := json.Unmarshal(kv.Value, &c); err != nil {
			return fmt.Errorf("%w: key %s: %w; run the same psrt everywhere", errCard, kv.Key, err)
		}
		r.change(func() { r.cards[worker] = c })
		news()
		return nil
	}
	for _, kv := range past {
		if err := take(kv); err != nil {
			return err
		}
	}
	w, err := r.coord.Watch(ctx, collectivePrefix, rev+1)
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

func (r *roll) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// newest is the highest epoch that somebody asks for, and what is closed when that may
// be another.
func (r *roll) newest() (epoch uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cards {
		epoch = max(epoch, c.Epoch)
	}
	return epoch, r.changed
}

// of waits for a worker to ask for the group of that epoch.
func (r *roll) of(ctx context.Context, worker int, epoch uint64) (card, error) {
	for {
		r.mu.Lock()
		c, changed, failure := r.cards[worker], r.changed, r.failure
		r.mu.Unlock()
		switch {
		case failure != nil:
			return card{}, failure
		case c.Epoch == epoch:
			return c, nil
		case c.Epoch > epoch:
			return card{}, errSuperseded
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return card{}, fmt.Errorf("worker %d has not come to group %d: %w", worker, epoch, context.Cause(ctx))
		}
	}
}

// hosts waits for all workers to do so, and gives each one's.
func (r *roll) hosts(ctx context.Context, epoch uint64) ([]string, error) {
	hosts := make([]string, len(r.cards))
	for worker := range hosts {
		c, err := r.of(ctx, worker, epoch)
		if err != nil {
			return nil, err
		}
		if hosts[worker] = c.Host; c.Host == "" {
			hosts[worker] = fmt.Sprintf("worker %d's", worker)
		}
	}
	return hosts, nil
}

// until is a context that ends when a group newer than epoch is asked for.
func (r *roll) until(ctx context.Context, epoch uint64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			newest, changed := r.newest()
			if newest > epoch {
				cancel(errSuperseded)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// had is the card that the process before this one left, of epoch 0 if it left none.
func (r *roll) had(ctx context.Context) (c card, err error) {
	kv, err := r.coord.Get(ctx, collectiveKey(r.self))
	if errors.Is(err, coord.ErrNotFound) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(kv.Value, &c)
	}
	return c, err
}

// show puts this worker's card. A process whose number another has may not.
func (r *roll) show(ctx context.Context, mine card) error {
	return putNewest(ctx, r.coord, collectiveKey(r.self), mine.Generation, mine)
}

// putNewest puts a card with a generation under key, unless a newer process has. Where
// the coordinator was away in the middle the card may be there already, and is put again.
func putNewest(ctx context.Context, c coord.Coordinator, key string, generation int, card any) error {
	b, err := json.Marshal(card)
	if err != nil {
		return err
	}
	for {
		var old struct {
			Generation int `json:"generation"`
		}
		kv, err := c.Get(ctx, key)
		switch {
		case errors.Is(err, coord.ErrNotFound):
			kv.Revision = 0
		case err != nil:
			return err
		default:
			if err := json.Unmarshal(kv.Value, &old); err != nil {
				return err
			}
		}
		if old.Generation > generation {
			return client.ErrTakenOver
		}
		if _, err = c.CompareAndPut(ctx, key, b, kv.Revision, 0); !again(ctx, err) {
			return err
		}
	}
}

// again says whether who has compared and put is to look at the key once more: another
// was first, or nobody knows whether it has happened. It is for those whose second try
// does no harm after a first that has.
func again(ctx context.Context, err error) bool {
	if !errors.Is(err, coord.ErrUnavailable) {
		return errors.Is(err, coord.ErrConflict)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookForCards): // a store that reads but cannot write is not asked without end
		return true
	}
}
