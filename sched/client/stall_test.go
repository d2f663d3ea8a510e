package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/sched/stall"
	"psrt/tiers/table"
)

// stallOf is a client whose stalls are told to lines.
func (w *world) stallOf(ctx context.Context, worker int, after time.Duration) (c *Client, lines chan string) {
	w.t.Helper()
	lines = make(chan string, 64)
	watch := stall.New(stall.Config{Rank: "worker 0", After: after, Say: func(line string) {
		select {
		case lines <- line:
		default:
		}
	}})
	c, err := Open(ctx, Config{Worker: worker, Map: w.m, Host: w.host(), Timeout: 2 * time.Minute, Node: -1, Stall: watch})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(ctx)
	w.t.Cleanup(cancel)
	go watch.Run(ctx)
	return c, lines
}

// says waits for a line that has all words.
func says(t *testing.T, lines chan string, words ...string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		var line string
		select {
		case line = <-lines:
		case <-limit:
			t.Fatalf("nobody has said %q", words)
		}
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		t.Log(line)
		if has {
			return
		}
	}
}

// Under BSP a worker that stands still is named by those who wait for it.
func TestStallNamesTheWorkerThatIsBehind(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, worldConfig{transport: transport, servers: 2, lanes: 1, workers: 3, tables: []table.Spec{sumTable(1, 4)}})
			c, lines := w.stallOf(t.Context(), 0, 300*time.Millisecond)
			waiting := make(chan error, 1)
			r := w.rows(c, sumTable(1, 4))
			keys := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
			plan(t, r, keys)
			pull(t, c, r, 0, 0)
			others := []*Client{w.open(1), w.open(2)}
			sets := []*Rows{w.rows(others[0], sumTable(1, 4)), w.rows(others[1], sumTable(1, 4))}
			for i, o := range others {
				plan(t, sets[i], keys)
				pull(t, o, sets[i], 0, 0)
			}
			var pushed, first Call
			must(t, others[0].Push(sets[0], 0, true, &first))
			must(t, c.Push(r, 0, true, &pushed))
			go func() { waiting <- c.Wait(&pushed) }()
			says(t, lines, "stall: worker 0 waits for server 0, server 1 since ", "no completion", "server 1 lane 0", " wait for worker 2 since ",
				": step (a push of worker 0 at clock 0; worker 2 is in step 0, nothing was heard of it for ")
			push(t, others[1], sets[1], 0)
			must(t, <-waiting)
			must(t, others[0].Wait(&first))
			says(t, lines, "stall over: worker 0 waits for server 0, server 1")
		})
	}
}

// A pull that would be too far ahead names whom it waits for.
func TestStallOfAPullThatIsAhead(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 1, workers: 2, staleness: 1, tables: []table.Spec{sumTable(1, 4)}})
	c, lines := w.stallOf(t.Context(), 0, 300*time.Millisecond)
	r := w.rows(c, sumTable(1, 4))
	plan(t, r, []uint64{1, 2, 3})
	for clock := range uint64(2) {
		pull(t, c, r, clock, 0)
		push(t, c, r, clock)
	}
	var ahead Call
	must(t, c.Pull(r, 2, 0, &ahead))
	waiting := make(chan error, 1)
	go func() { waiting <- c.Wait(&ahead) }()
	says(t, lines, "no completion (pull at clock 2, lane 0)", "server 0 lane 0 waits for worker 1 since ",
		": clock (a pull of worker 0 at clock 2; worker 1 is in step 0, it is not connected)")
	o := w.open(1)
	set := w.rows(o, sumTable(1, 4))
	plan(t, set, []uint64{1})
	pull(t, o, set, 0, 0)
	push(t, o, set, 0)
	must(t, <-waiting)
}

// Whoever finds all slots of a lane in use is told whose answers are lacking.
func TestStallForWantOfASlot(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 1, workers: 2, staleness: 1, tables: []table.Spec{sumTable(1, 4)}})
	ctx, cancel := context.WithCancelCause(t.Context())
	c, lines := w.stallOf(ctx, 0, 300*time.Millisecond)
	sets := make([]*Rows, psmsg.Slots+1)
	calls := make([]Call, len(sets))
	for i := range sets {
		sets[i] = w.rows(c, sumTable(1, 4))
		plan(t, sets[i], []uint64{uint64(i)})
	}
	for clock := range uint64(2) {
		pull(t, c, sets[0], clock, 0)
		push(t, c, sets[0], clock)
	}
	waiting := make(chan error, 1)
	go func() {
		var err error
		for i := range sets {
			if err == nil {
				err = c.Pull(sets[i], 2, 0, &calls[i])
			}
		}
		waiting <- err
	}()
	says(t, lines, "worker 0 waits for server 0 since ", ": no credit (pull at clock 2, lane 0); server 0 lane 0 waits for worker 1 since ", ": clock (a pull of worker 0 at clock 2; worker 1 is in step 0, it is not connected)")
	over := errors.New("the test is over")
	cancel(over)
	if err := <-waiting; !errors.Is(err, over) {
		t.Error(err)
	}
}

// A disk that is silent is named by whom it keeps waiting.
func TestStallOfADisk(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 1, workers: 1, tables: []table.Spec{sumTable(1, 4)},
		slow: &slowtest.Config{Seed: seedtest.Seed(t), Late: 1000 * time.Hour, Always: true}})
	ctx, cancel := context.WithCancelCause(t.Context())
	c, lines := w.stallOf(ctx, 0, 300*time.Millisecond)
	r := w.rows(c, sumTable(1, 4))
	plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	var call Call
	must(t, c.Pull(r, 0, 0, &call))
	waiting := make(chan error, 1)
	go func() { waiting <- c.Wait(&call) }()
	says(t, lines, "worker 0 waits for server 0, server 1 since ", "server 0 lane 0 waits for its disks since ", ": disk (a pull of worker 0 at clock 0)", "server 1 lane 0 waits for its disks")
	over := errors.New("the test is over")
	cancel(over)
	if err := <-waiting; !errors.Is(err, over) {
		t.Error(err)
	}
}

// A server that is asked over a connection that this side has given up is as silent as
// one that does not answer.
func TestAServerWhoseConnectionWasGivenUp(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp", servers: 1, lanes: 1, workers: 1, tables: []table.Spec{sumTable(1, 4)}})
	c := w.open(0)
	_, peer := c.asks(0)
	if all := askOne(t.Context(), peer, 0); len(all) != 0 {
		t.Errorf("nothing waits: %+v", all)
	}
	peer.conn.Close()
	all := askOne(t.Context(), peer, 0)
	if len(all) != 1 || all[0].Who != peer.name || all[0].Kind != stall.Silent || !strings.Contains(all[0].What, stopped) || strings.Contains(all[0].What, "dial:") {
		t.Errorf("%+v", all)
	}
}

// Things that come late, and in the end do, are no stall.
func TestNoStallInASlowJob(t *testing.T) {
	w := newWorld(t, worldConfig{transport: "tcp" + late, servers: 2, lanes: 2, workers: 1, tables: []table.Spec{sumTable(1, 4)}})
	c, lines := w.stallOf(t.Context(), 0, time.Minute)
	r := w.rows(c, sumTable(1, 4))
	plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	for clock := range uint64(50) {
		pull(t, c, r, clock, 0)
		push(t, c, r, clock)
	}
	if len(lines) != 0 {
		t.Error(<-lines)
	}
}
