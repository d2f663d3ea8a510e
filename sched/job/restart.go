package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"psrt/sched/coord"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// WorkerRestarts is ProcessConfig's where nobody says.
const WorkerRestarts = 3

// workerDied says what follows: it is started again, or others go on for it. One that
// said why it ended would end so again.
func (l *launcher) workerDied(ctx context.Context, d *launch.Death, r *restarts) launch.Verdict {
	if l.said(d.Rank) != nil {
		return launch.Verdict{End: d}
	}
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if _, err := l.store.Get(asking, train.KeyDone); err == nil {
		if l.result == nil && d.Rank == l.job.Servers {
			return launch.Verdict{End: d} // it had the result, and nobody else tells it
		}
		return launch.Verdict{}
	}
	begun, _, err := l.store.List(asking, train.StoodPrefix)
	if err != nil {
		return launch.Verdict{End: errors.Join(d, err)}
	}
	// Nobody goes on for one that dies before they have met.
	again := (l.job.OnWorkerLoss == train.LossRestart || len(begun) < l.job.Workers) && l.started(d.Rank) < l.cfg.WorkerRestarts
	if !again && len(begun) < l.job.Workers {
		return launch.Verdict{End: d}
	}
	if !again {
		l.lost[d.Rank] = true
		if len(l.lost) == l.job.Workers {
			return launch.Verdict{End: d}
		}
	}
	if err := l.buryWorker(asking, d, again); err != nil {
		return launch.Verdict{End: errors.Join(d, err)}
	}
	if !again {
		l.tell(fmt.Sprintf("%v; another worker goes on for it", d))
		return launch.Verdict{}
	}
	l.mu.Lock()
	l.starts[d.Rank]++
	n := l.starts[d.Rank]
	l.mu.Unlock()
	l.tell(fmt.Sprintf("%v; it is started again (%d of %d times), and goes on where it was", d, n, l.cfg.WorkerRestarts))
	next := l.rank(d.Rank)
	return launch.Verdict{Again: &next, Pause: r.pause(time.Now())}
}

// buryWorker tells that a process is dead, so that nobody waits for its silence: its
// own number is free for the next process, or lost like those that it had adopted.
func (l *launcher) buryWorker(ctx context.Context, d *launch.Death, again bool) error {
	numbers, alive := map[int]numberCard{}, map[int]aliveCard{}
	if err := errors.Join(list(ctx, l.store, numberPrefix, numbers), list(ctx, l.store, alivePrefix, alive)); err != nil {
		return err
	}
	self, own := process(d.PID, d.Rank), d.Rank-l.job.Servers
	for worker, card := range numbers {
		a, here := alive[worker]
		if card.Done || !(here && a.Process == self) && (here || worker != own) {
			continue
		}
		l.mu.Lock()
		l.buried[worker] = card.Generation
		l.mu.Unlock()
		if !(again && worker == own) {
			if _, err := l.store.Put(ctx, lostPrefix+strconv.Itoa(worker), []byte(strconv.Itoa(card.Generation)), 0); err != nil {
				return err
			}
		}
		if _, err := l.store.Delete(ctx, alivePrefix+strconv.Itoa(worker)); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return err
		}
	}
	return nil
}

// killSilent has processes killed that do not end and keep no lease: they are stopped,
// or their machine takes all processors from them. What follows is as if they had died.
func (l *launcher) killSilent(ctx context.Context, kill chan<- int) {
	had := map[int]aliveCard{}
	silentSince := map[int]time.Time{}
	look := time.NewTicker(max(l.job.Silence()/4, 50*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		numbers, alive := map[int]numberCard{}, map[int]aliveCard{}
		asking, cancel := context.WithTimeout(ctx, storeTimeout)
		err := errors.Join(list(asking, l.store, numberPrefix, numbers), list(asking, l.store, alivePrefix, alive))
		cancel()
		if err != nil {
			continue // the coordinator is away: nobody is to be blamed
		}
		for worker, a := range alive {
			had[worker] = a
			delete(silentSince, worker)
		}
		for worker, a := range had {
			if _, here := alive[worker]; here || numbers[worker].Done || numbers[worker].Generation != a.Generation || l.isBuried(worker, a.Generation) {
				continue
			}
			if silentSince[worker].IsZero() {
				silentSince[worker] = time.Now()
			}
			if time.Since(silentSince[worker]) < l.job.Silence()/grace {
				continue
			}
			delete(had, worker)
			delete(silentSince, worker)
			l.tell(fmt.Sprintf("%s has given no sign of life for %v: it is killed", l.name(a.Rank), l.job.Silence()))
			select {
			case kill <- a.Rank:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *launcher) isBuried(worker, generation int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buried[worker] >= generation
}
