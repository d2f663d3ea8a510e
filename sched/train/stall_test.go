package train

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/sched/stall"
)

// A worker whose input does not come says so.
func TestStallOfTheInput(t *testing.T) {
	told := make(chan string, 16)
	w := stall.New(stall.Config{Rank: "worker 4", After: 50 * time.Millisecond, Say: func(line string) {
		select {
		case told <- line:
		default:
		}
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go w.Run(ctx)
	rank := &Rank{Stall: w}
	q := &queue{w: &worker{rank: rank, job: &Job{}}, in: make(chan planned), poll: func() error { return nil }, input: rank.Stall.GateFor(stall.Disk, "its input", "the next batch to be read")}
	over := make(chan error, 1)
	go func() { over <- second(q.fill(ctx, true)) }()
	if line := <-told; !strings.HasPrefix(line, "stall: worker 4 waits for its input since ") || !strings.HasSuffix(line, ": disk (the next batch to be read)") {
		t.Error(line)
	}
	bad := errors.New("the file is cut short")
	q.in <- planned{err: bad}
	if err := <-over; err != nil || len(q.steps) != 1 || !errors.Is(q.steps[0].err, bad) {
		t.Errorf("%v, %+v", err, q.steps)
	}
	ended := errors.New("the job is over")
	q.last, q.steps = false, nil
	go func() { over <- second(q.fill(ctx, true)) }()
	cancel(ended)
	if err := <-over; !errors.Is(err, ended) {
		t.Error(err)
	}
}

func second(_ bool, err error) error { return err }
