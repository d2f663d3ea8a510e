package slow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/stall"
)

// silent is a coordinator that was stopped: it takes what it is asked, and says nothing.
type silent struct{ coord.Coordinator }

func (silent) Put(ctx context.Context, _ string, _ []byte, _ coord.LeaseID) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (silent) List(ctx context.Context, _ string) ([]coord.KV, int64, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// A coordinator that does not answer is named by who waits for it.
func TestAStoppedCoordinator(t *testing.T) {
	told := make(chan string, 16)
	w := stall.New(stall.Config{Rank: "worker 2", After: 50 * time.Millisecond, AskWithin: 50 * time.Millisecond, Say: func(line string) {
		select {
		case told <- line:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go w.Run(ctx)
	c := Watched(silent{local.New()}, w)
	over := make(chan error, 1)
	go func() {
		_, err := c.Put(ctx, "done", nil, 0)
		over <- err
	}()
	if line := <-told; !strings.HasPrefix(line, "stall: worker 2 waits for the coordinator since ") || !strings.HasSuffix(line, ": coordinator (put done)") {
		t.Error(line)
	}
	// Those who wait at a gathering find out that it is the coordinator.
	end := w.Begin(stall.Barrier, "the other workers", "to come to train-1", func(ctx context.Context) []stall.Wait {
		if _, err := coord.Absent(ctx, silent{}, "train-1", 3); err != nil {
			return []stall.Wait{{Who: "the coordinator", Kind: stall.Silent, What: err.Error()}}
		}
		return nil
	})
	for line := range told {
		if strings.Contains(line, "waits for the other workers") {
			if !strings.HasSuffix(line, "barrier (to come to train-1); the coordinator: no answer (context deadline exceeded)") {
				t.Error(line)
			}
			break
		}
	}
	end()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Who has not come to a gathering is known to those who wait.
func TestAbsent(t *testing.T) {
	c := local.New()
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	over := make(chan error, 2)
	for _, id := range []int{0, 2} {
		go func() {
			_, err := coord.Gather(ctx, c, "pass", 3, id, []byte("x"))
			over <- err
		}()
	}
	for {
		absent, err := coord.Absent(ctx, c, "pass", 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(absent) == 1 {
			if absent[0] != 1 {
				t.Errorf("absent: %v", absent)
			}
			break
		}
	}
	if _, err := coord.Gather(ctx, c, "pass", 3, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

// It is the coordinator below in all else.
func TestItIsTheCoordinator(t *testing.T) {
	below := local.New()
	defer below.Close()
	if Watched(below, nil) != coord.Coordinator(below) {
		t.Error("wrapped for nobody")
	}
	c, ctx := Watched(below, stall.New(stall.Config{After: time.Hour})), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := c.Grant(ctx, time.Minute)
	must(err)
	must(c.KeepAlive(ctx, lease))
	w, err := c.Watch(ctx, "k", 0)
	must(err)
	defer w.Close()
	rev, err := c.Put(ctx, "k", []byte("a"), lease)
	must(err)
	if e := <-w.Events(); e.Key != "k" || e.Revision != rev {
		t.Errorf("%+v", e)
	}
	if _, err := c.CompareAndPut(ctx, "k", []byte("b"), rev+1, 0); !errors.Is(err, coord.ErrConflict) {
		t.Error(err)
	}
	_, err = c.CompareAndPut(ctx, "k", []byte("b"), rev, lease)
	must(err)
	kv, err := c.Get(ctx, "k")
	if must(err); string(kv.Value) != "b" {
		t.Errorf("%+v", kv)
	}
	list, _, err := c.List(ctx, "k")
	if must(err); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	_, err = c.Delete(ctx, "k")
	must(err)
	must(c.Revoke(ctx, lease))
}
