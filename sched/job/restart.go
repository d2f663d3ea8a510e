package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"syscall"
	"time"

	"psrt/sched/coord"
	"psrt/sched/launch"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// WorkerRestarts is ProcessConfig's where nobody says.
const WorkerRestarts = 3

// storeAway is how long a worker's death waits for a store that is away, the user's etcd:
// training goes on, and changes wait. Who has the number next would wait for it, too.
const storeAway = 2 * time.Minute

// unheard says what helps where the store tells nobody who goes on for the dead.
func unheard(err error) error {
	return fmt.Errorf("job: the coordinator does not answer, and without it nobody has the dead worker's number: "+
		"bring it back and start the job again, with --resume where there is a checkpoint: %w", err)
}

// workerDied says what follows: it is started again, or others go on for it. One that
// said why it ended would end so again, but where another has its number already: it
// was stopped for long, and then went on.
func (l *launcher) workerDied(ctx context.Context, d *launch.Death, r *restarts) launch.Verdict {
	said := l.said(d.Rank)
	replaced := said != nil && psmsg.IsTakenOver(errors.New(said.Message))
	if said != nil && !replaced {
		return launch.Verdict{End: d}
	}
	waiting, stop := context.WithTimeout(ctx, storeAway)
	defer stop()
	_, err := l.store.Get(waiting, train.KeyDone)
	switch {
	case err == nil:
		if !l.hasResult() && d.Rank == l.job.Servers && !replaced {
			return launch.Verdict{End: d} // it had the result, and nobody else tells it
		}
		return launch.Verdict{}
	case !errors.Is(err, coord.ErrNotFound):
		return launch.Verdict{End: errors.Join(d, unheard(err))}
	}
	begun, _, err := l.store.List(waiting, train.StoodPrefix)
	if err != nil {
		return launch.Verdict{End: errors.Join(d, unheard(err))}
	}
	// Nobody goes on for one that dies before they have met.
	again := !replaced && (l.job.OnWorkerLoss == train.LossRestart || len(begun) < l.job.Workers) && l.started(d.Rank) < l.cfg.WorkerRestarts
	dense := l.job.IsDense(d.Rank - l.job.Servers)
	if !again && !replaced && (dense || l.job.Combines() || len(begun) < l.job.Workers) {
		return launch.Verdict{End: d}
	}
	if !again {
		l.lost[d.Rank] = true
		l.mu.Lock()
		delete(l.waiting, d.Rank)
		delete(l.failures, d.Rank)
		l.mu.Unlock()
		if len(l.lost) == l.job.Workers {
			return launch.Verdict{End: d}
		}
	}
	if err := l.buryWorker(waiting, d, again, replaced); err != nil {
		return launch.Verdict{End: errors.Join(d, unheard(err))}
	}
	if !again {
		if dense {
			return launch.Verdict{} // another process has its number
		}
		l.tell(fmt.Sprintf("%v; another worker goes on for it", d))
		return launch.Verdict{}
	}
	l.mu.Lock()
	l.starts[d.Rank]++
	n := l.starts[d.Rank]
	pause := r.pause(time.Now())
	l.waiting[d.Rank] = time.Now().Add(pause)
	l.mu.Unlock()
	l.tell(fmt.Sprintf("%v; it is started again (%d of %d times), and goes on where it was", d, n, l.cfg.WorkerRestarts))
	next := l.rank(d.Rank)
	return launch.Verdict{Again: &next, Pause: pause}
}

// buryWorker tells that a process is dead, so that nobody waits for its silence: its
// own number is free for the next process, lost like those that it had adopted, or
// another's.
func (l *launcher) buryWorker(ctx context.Context, d *launch.Death, again, replaced bool) error {
	_, err := bury(ctx, l.store, process(d.PID, d.Rank), d.Rank-l.job.Servers, again, replaced)
	return err
}

// bury tells that a process is dead, of which own is the worker that it was started as;
// first: nobody had told it.
func bury(ctx context.Context, c coord.Coordinator, self string, own int, again, replaced bool) (first bool, err error) {
	numbers := map[int]numberCard{}
	alive, err := aliveNow(ctx, c)
	if err = errors.Join(err, list(ctx, c, numberPrefix, byWorker, numbers)); err != nil {
		return false, err
	}
	remove := func(key string) error {
		_, err := c.Delete(ctx, key)
		first = first || err == nil
		return ignore(err, coord.ErrNotFound)
	}
	for worker, card := range numbers {
		a := alive[worker]
		here := a.Generation >= card.Generation
		if card.Done || replaced && worker == own || !(here && a.Process == self) && (here || worker != own) {
			continue
		}
		if !(again && worker == own) {
			if _, err := c.Put(ctx, lostPrefix+strconv.Itoa(worker), []byte(strconv.Itoa(card.Generation)), 0); err != nil {
				return first, err
			}
		}
		if err := remove(aliveKey(worker, card.Generation)); err != nil {
			return first, err
		}
	}
	for worker, a := range alive { // it died before the number was its own
		if a.Process == self && a.Generation > numbers[worker].Generation {
			if err := remove(aliveKey(worker, a.Generation)); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// killSilent has processes killed that do not end and keep no lease: they are stopped,
// or their machine takes all processors from them. What follows is as if they had died.
func (l *launcher) killSilent(ctx context.Context, kill chan<- launch.Victim) {
	s := silences{silence: l.job.Silence(), had: map[string]aliveCard{}, since: map[string]time.Time{}}
	look := time.NewTicker(max(l.job.Silence()/4, 50*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		asking, cancel := context.WithTimeout(ctx, storeTimeout)
		alive, err := aliveNow(asking, l.store)
		cancel()
		if err != nil {
			continue // the coordinator is away: nobody is to be blamed
		}
		living, dead := s.look(alive, time.Now())
		for _, d := range dead {
			if syscall.Kill(d.PID, 0) != nil {
				continue // it has ended
			}
			l.tell(fmt.Sprintf("%s (pid %d) has given no sign of life for %v: it is killed", l.name(d.Rank), d.PID, d.silent.Round(time.Millisecond)))
			if !send(ctx, kill, launch.Victim{Rank: d.Rank, PID: d.PID}) {
				return
			}
		}
		for rank, began := range l.unborn(living) {
			if time.Since(began) > max(bornWithin, 2*l.job.Silence()) {
				l.tell(l.name(rank) + " was started and does not begin: it is killed")
				if !send(ctx, kill, launch.Victim{Rank: rank}) {
					return
				}
			}
		}
	}
}

// silences is what a launcher remembers of processes that keep no lease.
type silences struct {
	silence time.Duration        // after which a lease ends
	had     map[string]aliveCard // by process, all that have shown themselves
	since   map[string]time.Time // a look has found them silent
	nobody  bool                 // lived at the last look
}

// silentCard is a process that has been silent for too long.
type silentCard struct {
	aliveCard
	silent time.Duration
}

// look says who lives, and who has been silent for too long, each once.
func (s *silences) look(alive map[int]aliveCard, now time.Time) (living map[string]bool, dead []silentCard) {
	living = map[string]bool{}
	for _, a := range alive {
		s.had[a.Process], living[a.Process] = a, true
		delete(s.since, a.Process)
	}
	nobody, patience := len(living) == 0, s.silence/grace
	switch {
	case nobody: // no core for anybody, more likely, and to kill all may end the job
		patience = 2 * s.silence
	case s.nobody: // the first of them is back: the others may be on their way
		for p := range s.since {
			s.since[p] = now
		}
	}
	s.nobody = nobody
	for p, a := range s.had {
		since, known := s.since[p]
		switch {
		case living[p]:
		case !known:
			s.since[p] = now
		case now.Sub(since) >= patience:
			delete(s.had, p)
			delete(s.since, p)
			dead = append(dead, silentCard{a, s.silence + now.Sub(since)})
		}
	}
	return living, dead
}

// bornWithin is how long a worker that was started may take to show itself.
const bornWithin = 30 * time.Second

// unborn are ranks that were started and have not shown themselves, and since
// when.
func (l *launcher) unborn(living map[string]bool) map[int]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range living {
		_, text, _ := strings.Cut(p, "#")
		if rank, err := strconv.Atoi(text); err == nil {
			delete(l.waiting, rank)
		}
	}
	return maps.Clone(l.waiting)
}

func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}
