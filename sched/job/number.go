package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/sched/coord"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// Keys of a job that survives its workers. A worker's number is a stream of pushes,
// and has one process at a time:
//
//	number/<i>       numberCard: how many processes have had it, and whether it is over
//	alive/<i>.<n>    aliveCard of the n-th, under a lease of that process
//	lost/<i>         the generation that is known to be dead: nobody waits for its lease
const (
	numberPrefix = "number/"
	alivePrefix  = "alive/"
	lostPrefix   = "lost/"
)

type numberCard struct {
	Generation int  `json:"generation"`
	Done       bool `json:"done,omitempty"`
}

// aliveCard says which process has a number.
type aliveCard struct {
	Generation int    `json:"generation"`
	Process    string `json:"process"` // one for all numbers of a process
	Rank       int    `json:"rank"`    // the world rank that it was started as
	PID        int    `json:"pid"`
}

func aliveKey(worker, generation int) string {
	return fmt.Sprintf("%s%d.%d", alivePrefix, worker, generation)
}

// aliveNow is, by worker, who shows that it lives: of several the newest.
func aliveNow(ctx context.Context, c coord.Coordinator) (map[int]aliveCard, error) {
	all := map[string]aliveCard{}
	if err := list(ctx, c, alivePrefix, func(rest string) (string, bool) { return rest, true }, all); err != nil {
		return nil, err
	}
	alive := map[int]aliveCard{}
	for name, card := range all {
		text, _, _ := strings.Cut(name, ".")
		worker, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("job: %s%s is not understood; run the same psrt everywhere", alivePrefix, name)
		}
		if card.Generation > alive[worker].Generation {
			alive[worker] = card
		}
	}
	return alive, nil
}

// process names one of this host.
func process(pid, rank int) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%d@%s#%d", pid, host, rank)
}

// number is a worker's number that this process has.
type number struct {
	worker     int
	generation int
	c          coord.Coordinator
	ttl        time.Duration
	card       []byte // the aliveCard
	stop       context.CancelFunc
	stopped    chan struct{}
}

// claim gets a worker's number: a new one, or that of a process that is dead. It waits
// for at most patience until that one has been silent for as long as it may.
func claim(ctx context.Context, c coord.Coordinator, job *train.Job, worker, rank int, patience time.Duration) (*number, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+claimWithin)
	defer cancel()
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	free := func(generation int) error {
		err := silent(waiting, c, aliveKey(worker, generation))
		if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil {
			return badInput("job: worker %d is another process, that lives: start every rank once (%w)", worker, err)
		}
		return err
	}
	for seen := 0; ; {
		card, revision, err := readNumber(ctx, c, worker)
		switch {
		case err != nil:
			return nil, err
		case card.Done:
			return nil, badInput("job: worker %d has done its part: start every rank once", worker)
		case card.Generation >= psmsg.MaxGeneration:
			return nil, fmt.Errorf("job: worker %d has died %d times", worker, card.Generation)
		}
		if card.Generation > seen { // who has taken it over while this one waited is to be silent, too
			seen = card.Generation
			if err := free(seen); err != nil {
				return nil, err
			}
			continue
		}
		card.Generation++
		n, err := take(ctx, c, job, worker, rank, card, revision)
		if !errors.Is(err, coord.ErrConflict) && !errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil {
			return n, err
		}
		// Another was faster, and may be dead before it has the number.
		if err := free(card.Generation); err != nil {
			return nil, err
		}
	}
}

// take makes a number this process's, as card says, where it is still at revision.
func take(ctx context.Context, c coord.Coordinator, job *train.Job, worker, rank int, card numberCard, revision int64) (*number, error) {
	text, err := json.Marshal(card)
	if err != nil {
		return nil, err
	}
	n := &number{worker: worker, generation: card.Generation, c: c, ttl: job.Silence(), stopped: make(chan struct{})}
	if n.card, err = json.Marshal(aliveCard{card.Generation, process(os.Getpid(), rank), rank, os.Getpid()}); err != nil {
		return nil, err
	}
	// First that it lives, so that nobody finds the number taken by one that does not.
	if err = n.begin(ctx); err != nil {
		return nil, err
	}
	if _, err = c.CompareAndPut(ctx, numberPrefix+strconv.Itoa(worker), text, revision, 0); err != nil {
		n.end(false)
		return nil, err
	}
	return n, nil
}

// claimWithin bounds what the coordinator takes for it.
const claimWithin = 10 * time.Second

func readNumber(ctx context.Context, c coord.Coordinator, worker int) (card numberCard, revision int64, err error) {
	kv, err := c.Get(ctx, numberPrefix+strconv.Itoa(worker))
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return card, 0, nil
	case err != nil:
		return card, 0, err
	}
	if err := json.Unmarshal(kv.Value, &card); err != nil {
		return card, 0, fmt.Errorf("job: %s is not understood: %w; run the same psrt everywhere", kv.Key, err)
	}
	return card, kv.Revision, nil
}

// silent waits until nobody keeps a lease of a number.
func silent(ctx context.Context, c coord.Coordinator, key string) error {
	for {
		past, rev, err := c.List(ctx, key)
		if err != nil {
			return err
		}
		here := false
		for _, kv := range past {
			here = here || kv.Key == key
		}
		if !here {
			return nil
		}
		w, err := c.Watch(ctx, key, rev+1)
		if err != nil {
			return err
		}
		for e := range w.Events() {
			if e.Key == key && e.Deleted {
				w.Close()
				return nil
			}
		}
		err = w.Err()
		w.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, coord.ErrLagging) && !errors.Is(err, coord.ErrCompacted) {
			return err
		}
	}
}

// begin shows that the process lives, until end. A lease that was lost, as the
// coordinator was away for long, is taken anew: whoever has taken the number over says
// so under numberPrefix.
func (n *number) begin(ctx context.Context) error {
	first, err := n.show(ctx, func(ctx context.Context, lease coord.LeaseID) (int64, error) {
		return n.c.CompareAndPut(ctx, aliveKey(n.worker, n.generation), n.card, 0, lease)
	})
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() {
		defer close(n.stopped)
		var answers sync.WaitGroup
		defer answers.Wait()
		answers.Go(func() { n.answer(life) })
		for s := first; ; {
			select {
			case <-life.Done():
				_ = s.Close() // the lease ends by itself, too
				return
			case <-s.Lost():
			}
			_ = s.Close()
			for {
				if s, err = n.show(life, n.put); err == nil {
					break
				}
				select {
				case <-life.Done():
					return
				case <-time.After(n.ttl / 3):
				}
			}
		}
	}()
	return nil
}

func (n *number) put(ctx context.Context, lease coord.LeaseID) (int64, error) {
	return n.c.Put(ctx, aliveKey(n.worker, n.generation), n.card, lease)
}

// show puts its card under a lease.
func (n *number) show(ctx context.Context, put func(context.Context, coord.LeaseID) (int64, error)) (*coord.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, n.ttl)
	defer cancel()
	s, err := coord.NewSession(ctx, n.c, n.ttl)
	if err != nil {
		return nil, err
	}
	if _, err := put(ctx, s.Lease()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// end gives the number back; with done nobody is to have it again.
func (n *number) end(done bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if done {
		if card, revision, err := readNumber(ctx, n.c, n.worker); err == nil && card.Generation == n.generation {
			card.Done = true
			if text, err := json.Marshal(card); err == nil {
				_, _ = n.c.CompareAndPut(ctx, numberPrefix+strconv.Itoa(n.worker), text, revision, 0)
			}
		}
	}
	n.stop()
	<-n.stopped
}

// again is the next generation of the number, of the same process.
func (n *number) again(ctx context.Context, job *train.Job, rank int) error {
	n.end(false)
	taken := func() bool {
		card, _, err := readNumber(ctx, n.c, n.worker)
		return err == nil && card.Generation > n.generation
	}
	if taken() {
		return &psmsg.TakenOverError{Worker: n.worker}
	}
	next, err := claim(ctx, n.c, job, n.worker, rank, storeAway)
	if err == nil {
		*n = *next
		return nil
	}
	if taken() {
		return &psmsg.TakenOverError{Worker: n.worker}
	}
	return err
}

// watch ends the process's part when another has the number.
func (n *number) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	key := numberPrefix + strconv.Itoa(n.worker)
	for ctx.Err() == nil {
		_, rev, err := n.c.List(ctx, key)
		if err != nil {
			return // whoever watches the coordinator says so
		}
		if card, _, err := readNumber(ctx, n.c, n.worker); err == nil && card.Generation > n.generation {
			cancel(&psmsg.TakenOverError{Worker: n.worker})
			return
		}
		w, err := n.c.Watch(ctx, key, rev+1)
		if err != nil {
			return
		}
		for e := range w.Events() {
			var card numberCard
			if e.Key == key && json.Unmarshal(e.Value, &card) == nil && card.Generation > n.generation {
				w.Close()
				cancel(&psmsg.TakenOverError{Worker: n.worker})
				return
			}
		}
		w.Close()
	}
}

// byWorker is the number in a key, behind its prefix.
func byWorker(rest string) (int, bool) {
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0
}
