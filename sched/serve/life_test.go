package serve

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/sched/server"
)

// TestServerStartedAgain: a trainer goes on with a server that was stopped,
// loaded what it had saved, and never saw the trainer: with the sequence, the
// step and a table that trainers described.
func TestServerStartedAgain(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	cfg := Config{Tables: tables(t, sums+"dense: {rule: sgd, parts: [{name: b, size: 9, init: {kind: uniform}}]}\n"), NewTables: true, Staleness: asp, Save: model}
	s := start(t, cfg)
	cfg.Listen, cfg.Load = s.Addr(), model
	a := s.join(t)
	mine := tables(t, "tables: [{name: mine, dim: 1, rule: adam}]").Specs[0]
	if rep := a.table("mine", &mine); rep.Refused != "" {
		t.Fatal(rep.Refused)
	}
	for range 5 {
		a.push("sum", true, []uint64{1, 2}, 1, 2)
		a.push("mine", false, []uint64{3}, 1)
	}
	digest := s.digest(t)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, cfg)
	if got := s.digest(t); got != digest {
		t.Fatalf("digest %s after the restart, was %s", got, digest)
	}
	// The connection is made again inside; the step is the trainer's affair.
	r, index := a.rowsOf("sum", 2, 1, 2)
	var call client.Call
	a.do(a.Pull(r, a.step, client.AnyClock, &call), &call)
	if got := r.Values()[2*index[1]]; got != 10 {
		t.Errorf("the sum is %v, want 10", got)
	}
	var rep psmsg.EnterReply
	a.call(psmsg.MethodEnter, psmsg.EnterRequest{Step: &a.step}, &rep)
	if rep.Step != 5 {
		t.Errorf("the trainer is in step %d, was in 5", rep.Step)
	}
	a.push("sum", true, []uint64{1, 2}, 1, 2)
	if got := s.join(t).pull("sum", 1, 2); !slices.Equal(got, []float32{6, 12}) {
		t.Errorf("the sums are %v, want 6 and 12", got)
	}
}

// rowsOf is rows of a table that is known, without asking the server.
func (tr *trainer) rowsOf(name string, dim int, keys ...uint64) (*client.Rows, []int32) {
	tr.t.Helper()
	spec := tables(tr.t, sums).Specs[0]
	r, err := tr.NewRows(spec)
	if err != nil || spec.Name != name || spec.Dim != dim {
		tr.t.Fatal(spec, err)
	}
	tr.t.Cleanup(r.Close)
	index := [][]int32{make([]int32, len(keys))}
	if err := r.Plan([][]uint64{keys}, index); err != nil {
		tr.t.Fatal(err)
	}
	return r, index[0]
}

// TestSaveNowAndThen: what is on disk while the server runs is a whole model; a
// load of something else is refused.
func TestSaveNowAndThen(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	lines := make(chan string, 100)
	var saved atomic.Int32
	s := start(t, Config{Tables: tables(t, sums), Staleness: asp, Save: model, SaveEvery: 100 * time.Millisecond, OnSave: func(err error) {
		if saved.Add(1); err != nil {
			t.Errorf("a save is told as failed: %v", err)
		}
	}, Log: func(l string) {
		select {
		case lines <- l:
		default:
		}
	}})
	tr := s.join(t)
	tr.push("sum", false, []uint64{8}, 3)
	digest := s.digest(t)
	for deadline := time.After(10 * time.Minute); ; { // of a busy machine
		var line string
		select {
		case line = <-lines:
		case <-deadline:
			t.Fatal("no model with what was pushed was saved in ten minutes")
		}
		if strings.Contains(line, digest) {
			break
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if saved.Load() < 2 { // once meanwhile, and at the end
		t.Errorf("%d saves are told", saved.Load())
	}
	if got := start(t, Config{Tables: tables(t, sums), Staleness: asp, Load: model}).join(t).pull("sum", 8); got[0] != 3 {
		t.Errorf("the loaded sum is %v", got)
	}
	for text, want := range map[string]string{
		"tables: [{name: sum, dim: 3, rule: sum}, {name: last, dim: 2, rule: assign}]":  "table sum has dimension 3",
		"tables: [{name: sum, dim: 2, rule: adam}, {name: last, dim: 2, rule: assign}]": "table sum has dimension 2 and optimizer adam",
		"tables: [{name: new, dim: 2, rule: adam}]":                                     "describe it there",
	} {
		s, err := New(Config{Listen: "127.0.0.1:0", Token: testToken, Lanes: 1, Clients: 1, Node: -1, Tables: tables(t, text), Load: model})
		if err != nil {
			t.Fatal(err)
		}
		says(t, s.Run(t.Context(), func() { t.Error("ready") }), want)
	}
}

// TestOneByOne: in BSP the trainers that are there are all that is waited for,
// and their sum does not depend on who is first.
func TestOneByOne(t *testing.T) {
	var digests []string
	for round := range 2 {
		s := start(t, Config{Tables: tables(t, "tables: [{name: w, dim: 2, rule: adagrad}, {name: last, dim: 1, rule: assign}]"), Staleness: 0})
		a := s.join(t)
		a.push("w", true, []uint64{1}, 0.1) // nobody else is waited for
		b := s.join(t)
		if b.step != 1 {
			t.Errorf("the second trainer begins in step %d, want 1", b.step)
		}
		var both sync.WaitGroup
		for i, tr := range []*trainer{a, b} {
			both.Go(func() {
				if i == round {
					time.Sleep(50 * time.Millisecond) // the other one's push comes first
				}
				tr.push("w", true, []uint64{1}, float32(0.3*float64(i+1)))
				if i == round {
					time.Sleep(50 * time.Millisecond)
				}
				tr.push("last", true, []uint64{1}, float32(i))
			})
		}
		both.Wait()
		if got := a.pull("last", 1); got[0] != 1 {
			t.Errorf("assigned last is %v, want what the trainer of the highest number pushed", got)
		}
		digests = append(digests, s.digest(t))
		b.leave()
		a.push("w", true, []uint64{1}, 1) // nobody waits for one that left
	}
	if digests[0] != digests[1] {
		t.Errorf("the order of arrival shows: %v", digests)
	}
}

// TestBarrier: all that are connected, or as many as was asked for.
func TestBarrier(t *testing.T) {
	s := start(t, Config{Tables: tables(t, sums), Staleness: asp})
	a, b, c := s.join(t), s.join(t), s.join(t)
	wait := func(tr *trainer, n int, limit time.Duration) (rep psmsg.BarrierReply) {
		tr.call(psmsg.MethodBarrier, psmsg.BarrierRequest{Workers: n, TimeoutMicros: limit.Microseconds()}, &rep)
		return rep
	}
	if rep := wait(a, 0, 30*time.Millisecond); rep.All || fmt.Sprint(rep.Came) != "[0]" {
		t.Errorf("one of three: %+v", rep)
	}
	var group sync.WaitGroup
	meet := func(n int, who ...*trainer) {
		for _, tr := range who {
			group.Go(func() {
				if rep := wait(tr, n, time.Minute); !rep.All {
					t.Errorf("trainer %d waited for nothing: %+v", tr.Worker(), rep)
				}
			})
		}
	}
	meet(0, a, b, c)
	group.Wait()
	meet(2, a, c)
	group.Wait()
	meet(0, a, b)
	time.Sleep(20 * time.Millisecond)
	c.leave() // the others need not wait for it
	group.Wait()
}

// TestStaleness: SSP among those that are there.
func TestStaleness(t *testing.T) {
	s := start(t, Config{Tables: tables(t, sums), Staleness: 1})
	a, b := s.join(t), s.join(t)
	for range 2 {
		a.push("sum", true, []uint64{1}, 1)
	}
	got := make(chan float32)
	go func() { got <- a.pull("sum", 1)[0] }() // in step 2, b in step 0
	select {
	case v := <-got:
		t.Fatalf("a pull two steps ahead was answered with %v", v)
	case <-time.After(100 * time.Millisecond):
	}
	b.leave()
	if v := <-got; v != 2 {
		t.Errorf("the pull gives %v, want 2", v)
	}
}

// TestTableSync: one table is as stale as it likes, and the other is not.
func TestTableSync(t *testing.T) {
	const two = "tables: [{name: strict, dim: 1, rule: sum}, {name: free, dim: 1, rule: sum}]\ndense: {rule: sgd, parts: [{name: b, size: 1}]}\n"
	s := start(t, Config{Tables: tables(t, two), Staleness: asp, TableSync: clock.ByTable{"strict": clock.Fixed(1), server.DenseName: {Least: 1, Most: 3}}})
	a, b := s.join(t), s.join(t)
	for range 2 {
		a.push("strict", false, []uint64{1}, 1)
		a.push("free", true, []uint64{1}, 1)
	}
	if v := a.pull("free", 1)[0]; v != 2 { // in step 2, b in step 0
		t.Errorf("the pull that waits for nobody gives %v, want 2", v)
	}
	got := make(chan float32)
	go func() { got <- a.pull("strict", 1)[0] }()
	select {
	case v := <-got:
		t.Fatalf("a pull two steps ahead was answered with %v", v)
	case <-time.After(100 * time.Millisecond):
	}
	b.leave()
	if v := <-got; v != 2 {
		t.Errorf("the pull gives %v, want 2", v)
	}
	st, err := s.server.Stats()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]string{}
	for _, y := range st.Syncs {
		modes[y.Table] = y.Mode
	}
	if modes["strict"] != "ssp:1" || modes["free"] != "asp" || modes[server.DenseName] != "ssp:1-3" {
		t.Errorf("the server shows %v", modes)
	}
}

// TestTrainerLost: one that is gone without a goodbye is waited for as long as it
// may come back, and no longer; what it pushed stays.
func TestTrainerLost(t *testing.T) {
	lines := make(chan string, 10)
	s := start(t, Config{Tables: tables(t, sums), Staleness: 0, ReconnectFor: 300 * time.Millisecond, Log: func(l string) { lines <- l }})
	a, b := s.join(t), s.join(t)
	var both sync.WaitGroup
	for _, tr := range []*trainer{a, b} {
		both.Go(func() { tr.push("sum", true, []uint64{1}, 2) })
	}
	both.Wait()
	begin := time.Now()
	b.Close()
	a.push("sum", true, []uint64{1}, 3)
	if waited := time.Since(begin); waited < 200*time.Millisecond {
		t.Errorf("the step was ended after %v, without the trainer that might have come back", waited)
	}
	if got := a.pull("sum", 1); got[0] != 7 {
		t.Errorf("the sum is %v, want 7", got)
	}
	if line := <-lines; !strings.Contains(line, "trainer 1 broke its connection and did not come back within 300ms") {
		t.Errorf("the log says %q", line)
	}
}
