package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/sched/coord"
	"psrt/sched/train"
)

// doubts are a server's about workers that have hung up. Where no launcher of psrt's sees
// a process end, its lease would outlive it by --worker-timeout; the kernel, though, closes
// a dead process's connections at once. So a server asks one that did:
//
//	doubt/<i>.<n>    put by a server that doubts whether the n-th process of a number
//	                 lives; that process takes it away, which is its answer
//
// One that does not answer is dead: it is buried as by a launcher, which had seen it. A
// process that lives after all is fenced by its generation, as one that was silent for long.
type doubts struct {
	c    coord.Coordinator
	job  *train.Job
	note func(string)

	mu    sync.Mutex
	under map[int]bool // workers that are asked: by any group of this server, once
}

const doubtPrefix = "doubt/"

const (
	// answerWithin is how long a worker may take to say that it lives. It has a core now
	// and then, and a way to the coordinator, or its training stands still anyway.
	answerWithin = 2 * time.Second
	answerLook   = 50 * time.Millisecond
	// doubtWithin bounds all of it: a coordinator that is away tells of nobody's death.
	doubtWithin = 10 * answerWithin
)

func doubtKey(worker, generation int) string {
	return fmt.Sprintf("%s%d.%d", doubtPrefix, worker, generation)
}

// hungUp asks a worker that has hung up, and buries it where it does not answer and is not
// back.
func (d *doubts) hungUp(ctx context.Context, worker int, back func() bool) {
	d.mu.Lock()
	asked := d.under[worker]
	d.under[worker] = true
	d.mu.Unlock()
	if asked {
		return
	}
	defer func() {
		d.mu.Lock()
		delete(d.under, worker)
		d.mu.Unlock()
	}()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, doubtWithin)
	defer cancel()
	dead, err := d.ask(ctx, worker, back)
	if err != nil || dead == nil {
		return // or its silence tells
	}
	first, err := bury(ctx, d.c, dead.Process, dead.Rank-d.job.Servers, d.job.OnWorkerLoss == train.LossRestart, false)
	if err != nil || !first { // another server was faster
		return
	}
	d.note(fmt.Sprintf("%s (%s) has hung up and does not answer: it is taken for dead after %.1f s", d.job.MemberName(worker), dead.Process, time.Since(began).Seconds()))
}

// ask returns what is known of the process with a worker's number where that does not
// answer; nil: it does, or is back, or has ended, or is known to be dead.
func (d *doubts) ask(ctx context.Context, worker int, back func() bool) (*aliveCard, error) {
	if back() {
		return nil, nil
	}
	card, here, err := d.holder(ctx, worker)
	if err != nil || !here {
		return nil, err
	}
	key := doubtKey(worker, card.Generation)
	if _, err := d.c.Put(ctx, key, nil, 0); err != nil {
		return nil, err
	}
	answered := func() (bool, error) {
		_, err := d.c.Get(ctx, key)
		return errors.Is(err, coord.ErrNotFound), ignore(err, coord.ErrNotFound)
	}
	// By looks, not by time: while the coordinator is slow, so is the answer's way through it.
	for range answerWithin / answerLook {
		if yes, err := answered(); yes || err != nil || back() {
			return nil, err
		}
		select {
		case <-time.After(answerLook):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	// Nobody else needs the question; where the answer has come meanwhile it is gone.
	if yes, err := answered(); yes || err != nil || back() {
		return nil, err
	}
	now, here, err := d.holder(ctx, worker)
	if err != nil || !here || now != card {
		return nil, err
	}
	_, err = d.c.Delete(ctx, key)
	return &now, ignore(err, coord.ErrNotFound)
}

// holder is the process that has a worker's number, where one shows that it lives.
func (d *doubts) holder(ctx context.Context, worker int) (card aliveCard, here bool, err error) {
	number, _, err := readNumber(ctx, d.c, worker)
	if err != nil || number.Done || number.Generation == 0 {
		return card, false, err
	}
	alive, err := aliveNow(ctx, d.c)
	if err != nil {
		return card, false, err
	}
	card, here = alive[worker]
	return card, here && card.Generation == number.Generation, nil
}

// answer has the number's process say that it lives whenever it is asked, until ctx ends.
func (n *number) answer(ctx context.Context) {
	for ctx.Err() == nil {
		_ = n.answers(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(answerLook): // the way to the coordinator broke
		}
	}
}

func (n *number) answers(ctx context.Context) error {
	key := doubtKey(n.worker, n.generation)
	here := func() error {
		_, err := n.c.Delete(ctx, key)
		return ignore(err, coord.ErrNotFound)
	}
	_, rev, err := n.c.List(ctx, key)
	if err == nil {
		err = here() // what it was asked before
	}
	if err != nil {
		return err
	}
	w, err := n.c.Watch(ctx, key, rev+1)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := range w.Events() {
		if e.Key != key || e.Deleted {
			continue
		}
		if err := here(); err != nil {
			return err
		}
	}
	return w.Err()
}

// hungUp is a server's Rank.OnHungUp; nil where a launcher of psrt's sees processes end, and
// where nobody goes on for them.
func hungUp(ctx context.Context, cfg *RankConfig, job *train.Job) func(worker int, back func() bool) {
	if !cfg.Seen || !job.Survives() {
		return nil
	}
	d := &doubts{c: cfg.Coord, job: job, under: map[int]bool{}, note: func(line string) {
		if cfg.Events != nil {
			cfg.Events(train.Event{Warning: line})
		}
	}}
	return func(worker int, back func() bool) { d.hungUp(ctx, worker, back) }
}
