package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/sched/coord"
)

// keyLife is worker 0's lifeCard, in jobs that survive their workers.
const keyLife = "life"

// lifeCard is written down before events of a table's life are told to any server. Who
// goes on for worker 0 tells them again: some servers may have heard them and others not.
// All that worker 0 decides later follows from Life and from what it reads.
type lifeCard struct {
	Life   lifeAt  `json:"life"`  // behind the events
	Clock  uint64  `json:"clock"` // they happen before this step
	From   int     `json:"from"`  // events that there were
	Events string  `json:"events"`
	Sum    Serving `json:"sum,omitzero"`
	Wait   float64 `json:"wait,omitempty"`
	// Generation is of the process: one that another has replaced writes nothing more.
	Generation int `json:"generation"`
}

func (k *keeper) writeDown(ctx context.Context, card lifeCard) error {
	if k.w.rank.Generation == 0 {
		return nil
	}
	card.Life, card.Sum, card.Wait, card.Generation = k.w.pos.Life, k.sum, k.wait, k.w.rank.Generation
	return putNewest(ctx, k.w.rank.Coord, keyLife, card.Generation, card)
}

// readLife is what the process before wrote down, nil for nothing.
func (w *worker) readLife(ctx context.Context) (*lifeCard, error) {
	kv, err := w.rank.Coord.Get(ctx, keyLife)
	if errors.Is(err, coord.ErrNotFound) {
		return nil, nil
	}
	var card lifeCard
	if err == nil {
		err = json.Unmarshal(kv.Value, &card)
	}
	if err != nil {
		return nil, fmt.Errorf("train: where the table's life stood is not understood: %w", err)
	}
	return &card, nil
}

// newer is the later of the card's and of what was written down before step clock: the
// card's where they are of one step, as the end of a pass is behind its report. With it,
// no step before its own has anything to do with the life again.
func (w *worker) newer(l lifeAt, clock uint64) lifeAt {
	c := w.lived
	if c == nil || c.Life.Events < l.Events || c.Life.Events == l.Events && c.Clock < clock {
		return l
	}
	return c.Life
}

// lives says whether the step that is about to begin counts for the days: not where a
// process before this one had it, and days have ended since.
func (w *worker) lives() bool { return w.lived == nil || w.clock >= w.lived.Clock }

// inheritKeeper goes on with the days of the process before, and tells its last events
// before any push of this one's: a step must not end before what happens behind it.
func (w *worker) inheritKeeper(ctx context.Context) error {
	if w.rank.Index > 0 || w.job.Lifecycle == nil {
		return nil
	}
	k := &keeper{w: w, plan: w.job.schedule(), began: time.Now(), heir: true}
	w.keeper = k
	if w.job.Serving != "" {
		err := w.awaitLock(ctx, func() (err error) {
			k.h, err = openServing(ctx, w.job, w.runID)
			return err
		})
		if err != nil {
			return err
		}
	}
	if c := w.lived; c != nil {
		k.sum, k.wait = c.Sum, c.Wait
		if c.Events != "" {
			if err := k.tell(ctx, c); err != nil {
				return err
			}
		}
	}
	k.sum.Location = w.job.Serving
	return nil
}

// inherit begins again, once, what a process before this one had under way: before a step
// of which no server has anything, or behind the last.
func (k *keeper) inherit(ctx context.Context) error {
	if !k.heir {
		return nil
	}
	k.heir = false
	at := &k.w.pos.Life
	if k.h != nil {
		if err := k.resume(ctx, at); err != nil {
			return err
		}
	}
	if at.Counting {
		return k.count(ctx)
	}
	return nil
}
