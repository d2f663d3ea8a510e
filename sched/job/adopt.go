package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"psrt/sched/coord"
	"psrt/sched/train"
)

// adopter goes on, in this worker's process, for workers that died and that nobody
// starts again. Which of the living goes on for whom follows from what the coordinator
// has; the number's card is compared and swapped, so that two do not.
type adopter struct {
	cfg     *RankConfig
	job     *train.Job
	run     func(ctx context.Context, n *number) error // a worker's life under that number
	life    context.Context                            // of the workers that are adopted
	cancel  context.CancelCauseFunc
	self    string
	away    map[int]since // workers without a process
	own     string        // key under which this process shows that it lives
	shown   int64         // revision of that at the last look, 0: it was away itself
	adopted sync.WaitGroup
}

// since is when a generation of a worker's was first seen to be away.
type since struct {
	generation int
	at         time.Time
}

// adoptWithin bounds the wait for one that shows itself again while it is adopted.
const adoptWithin = time.Second

// grace is how long a number without a process is left to one that was only away, as
// part of the silence that is taken for death.
const grace = 3

// watch looks after the others until ctx ends.
func (a *adopter) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.follow(ctx); err != nil && !errors.Is(err, coord.ErrLagging) && !errors.Is(err, coord.ErrCompacted) {
			return // the coordinator is gone, and whoever watches it says so
		}
	}
}

// follow looks at what there is, and again at each change.
func (a *adopter) follow(ctx context.Context) error {
	_, rev, err := a.cfg.Coord.List(ctx, alivePrefix)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive, err := a.cfg.Coord.Watch(ctx, alivePrefix, rev+1)
	if err != nil {
		return err
	}
	defer alive.Close()
	lost, err := a.cfg.Coord.Watch(ctx, lostPrefix, rev+1)
	if err != nil {
		return err
	}
	defer lost.Close()
	var later <-chan time.Time
	for {
		wait, err := a.look(ctx)
		if err != nil {
			return err
		}
		if wait {
			later = time.After(a.job.Silence() / grace)
		}
		select {
		case _, ok := <-alive.Events():
			if !ok {
				return alive.Err()
			}
		case _, ok := <-lost.Events():
			if !ok {
				return lost.Err()
			}
		case <-later:
			later = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look adopts whom this process is to adopt; wait is true where somebody is only away
// as yet.
func (a *adopter) look(ctx context.Context) (wait bool, err error) {
	if err := a.judge(ctx); err != nil {
		return false, err
	}
	s, err := a.standing(ctx)
	if err != nil {
		return false, err
	}
	for worker := range a.job.Workers {
		card, known := s.numbers[worker]
		if s.alive[worker].Generation >= card.Generation || !known || card.Done {
			delete(a.away, worker)
			continue
		}
		if a.away[worker].generation != card.Generation {
			a.away[worker] = since{card.Generation, time.Now()}
		}
		switch {
		case s.lost[worker] == card.Generation:
		case a.job.OnWorkerLoss != train.LossContinue:
			continue // the launcher starts it again, or says that it does not
		case time.Since(a.away[worker].at) < a.job.Silence()/grace:
			wait = true
			continue
		}
		if s.heir() == a.self {
			if err := a.adopt(ctx, worker); err != nil {
				return wait, err
			}
			return true, nil // look again, with this one
		}
		wait = true // the heir may die before it has begun
	}
	return wait, nil
}

// judge: one that was away itself says nothing of the others, which may have been so for
// the same reason and come back a little later. Their time begins again.
func (a *adopter) judge(ctx context.Context) error {
	kv, err := a.cfg.Coord.Get(ctx, a.own)
	if ignore(err, coord.ErrNotFound) != nil {
		return err
	}
	if err != nil {
		kv.Revision = 0
	}
	if kv.Revision == 0 || kv.Revision != a.shown {
		clear(a.away)
	}
	a.shown = kv.Revision
	return nil
}

// adopt begins to go on for a worker.
func (a *adopter) adopt(ctx context.Context, worker int) error {
	n, err := claim(ctx, a.cfg.Coord, a.job, worker, a.cfg.Rank, adoptWithin)
	if err != nil {
		return nil // another was faster, or it is back
	}
	if a.cfg.Events != nil {
		a.cfg.Events(train.Event{Warning: fmt.Sprintf("worker %d is gone: %s goes on for it, too", worker, nameIn(a.cfg.Rank, a.job))})
	}
	if a.cfg.OnAdopt != nil {
		a.cfg.OnAdopt(worker)
	}
	a.adopted.Go(func() {
		if err := a.run(a.life, n); err != nil && a.life.Err() == nil { // else it ended as this process's own part did
			err = fmt.Errorf("worker %d, for which %s went on: %w", worker, nameIn(a.cfg.Rank, a.job), err)
			a.cancel(err)
			raise(a.cfg.Coord, nameIn(a.cfg.Rank, a.job), err) // before the others miss both, and blame that
		}
	})
	return nil
}

// workersNow is what the coordinator has of the workers.
type workersNow struct {
	numbers map[int]numberCard
	alive   map[int]aliveCard
	lost    map[int]int
}

func (a *adopter) standing(ctx context.Context) (s workersNow, err error) {
	s = workersNow{numbers: map[int]numberCard{}, lost: map[int]int{}}
	if err = list(ctx, a.cfg.Coord, numberPrefix, byWorker, s.numbers); err == nil {
		s.alive, err = aliveNow(ctx, a.cfg.Coord)
	}
	if err == nil {
		err = list(ctx, a.cfg.Coord, lostPrefix, byWorker, s.lost)
	}
	return s, err
}

// list reads what is below a prefix.
func list[K comparable, T any](ctx context.Context, c coord.Coordinator, prefix string, key func(rest string) (K, bool), into map[K]T) error {
	kvs, _, err := c.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		k, ok := key(strings.TrimPrefix(kv.Key, prefix))
		var v T
		if err := json.Unmarshal(kv.Value, &v); err != nil || !ok {
			return fmt.Errorf("job: %s is not understood (%w); run the same psrt everywhere", kv.Key, err)
		}
		into[k] = v
	}
	return nil
}

// heir is the process that has the fewest numbers; of several, the one that was
// started as the lowest rank.
func (s *workersNow) heir() string {
	count, rank := map[string]int{}, map[string]int{}
	for _, c := range s.alive {
		count[c.Process]++
		rank[c.Process] = c.Rank
	}
	best := ""
	for p := range count {
		if best == "" || count[p] < count[best] || count[p] == count[best] && rank[p] < rank[best] {
			best = p
		}
	}
	return best
}
