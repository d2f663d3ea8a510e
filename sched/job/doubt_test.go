package job

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/train"
)

func notBack() bool { return false }

// A worker that has hung up and lives says so, also where it was asked before it looked;
// one that is dead is buried with all numbers of its process, long before its lease ends.
func TestHungUp(t *testing.T) {
	for _, loss := range []string{train.LossContinue, train.LossRestart} {
		t.Run(loss, func(t *testing.T) {
			c := local.New()
			defer c.Close()
			ctx := t.Context()
			j := &train.Job{Servers: 1, Workers: 4, OnWorkerLoss: loss, WorkerTimeout: 3600}
			var notes []string
			d := &doubts{c: c, job: j, under: map[int]bool{}, note: func(s string) { notes = append(notes, s) }}
			there := func(key string) bool {
				_, err := c.Get(ctx, key)
				must(t, ignore(err, coord.ErrNotFound))
				return err == nil
			}
			// What a process leaves that was killed: worker 1's, which goes on for worker 2.
			card, err := json.Marshal(aliveCard{Generation: 1, Process: process(7, 2), Rank: 2, PID: 7})
			must(t, err)
			for _, w := range []int{1, 2} {
				_, err := c.Put(ctx, numberPrefix+strconv.Itoa(w), []byte(`{"generation":1}`), 0)
				must(t, err)
				_, err = c.Put(ctx, aliveKey(w, 1), card, 0)
				must(t, err)
			}
			_, err = c.Put(ctx, doubtKey(0, 1), nil, 0)
			must(t, err)
			lives, err := claim(ctx, c, j, 0, 1, time.Second)
			must(t, err)
			d.hungUp(ctx, 0, notBack)
			d.hungUp(ctx, 3, notBack) // has no process yet
			if len(notes) > 0 || !there(aliveKey(0, 1)) || there(doubtKey(0, 1)) {
				t.Fatalf("worker 0 lives: %v", notes)
			}
			looks := 0
			d.hungUp(ctx, 1, func() bool { looks++; return looks > 3 }) // it connects anew
			if len(notes) > 0 || !there(aliveKey(1, 1)) {
				t.Fatalf("worker 1 is back: %v", notes)
			}
			d.hungUp(ctx, 1, notBack)
			if len(notes) != 1 || !strings.HasPrefix(notes[0], "worker 1 ("+process(7, 2)+") has hung up and does not answer") {
				t.Errorf("%q", notes)
			}
			if there(aliveKey(1, 1)) || there(aliveKey(2, 1)) || !there(aliveKey(0, 1)) || there(doubtKey(1, 1)) {
				t.Error("the dead keep their numbers, or the living do not")
			}
			// Who is started again has its number; others go on for the rest.
			if own, other := there(lostPrefix+"1"), there(lostPrefix+"2"); own != (loss == train.LossContinue) || !other {
				t.Errorf("lost: its own %v, its other %v", own, other)
			}
			next, err := claim(ctx, c, j, 1, 2, time.Second)
			must(t, err)
			next.end(true)
			d.hungUp(ctx, 1, notBack) // it is over
			lives.end(false)
			if len(notes) != 1 {
				t.Errorf("%q", notes)
			}
		})
	}
}

// A coordinator that is away tells of nobody's death.
func TestHungUpWithoutCoordinator(t *testing.T) {
	c := local.New()
	defer c.Close()
	j := &train.Job{Servers: 1, Workers: 1, OnWorkerLoss: train.LossContinue, WorkerTimeout: 3600}
	_, err := c.Put(t.Context(), numberPrefix+"0", []byte(`{"generation":1}`), 0)
	must(t, err)
	_, err = c.Put(t.Context(), aliveKey(0, 1), fmt.Appendf(nil, `{"generation":1,"process":%q,"rank":1}`, process(7, 1)), 0)
	must(t, err)
	d := &doubts{c: &goneLater{Coordinator: c}, job: j, under: map[int]bool{}, note: func(s string) { t.Error(s) }}
	d.hungUp(t.Context(), 0, notBack)
	if _, err := c.Get(t.Context(), aliveKey(0, 1)); err != nil {
		t.Error(err)
	}
}

// goneLater goes away while a worker is asked.
type goneLater struct {
	coord.Coordinator
	asked time.Time
}

func (g *goneLater) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	g.asked = time.Now()
	return g.Coordinator.Put(ctx, key, value, lease)
}

func (g *goneLater) Get(ctx context.Context, key string) (coord.KV, error) {
	if !g.asked.IsZero() && time.Since(g.asked) > answerWithin/2 {
		return coord.KV{}, coord.ErrUnavailable
	}
	return g.Coordinator.Get(ctx, key)
}
