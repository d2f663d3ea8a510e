package client

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/kv/kvtest"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// awaitReaders waits until some group is read from another member than its head.
func (c *Client) awaitReaders(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		for _, l := range c.Links() {
			if l.Reads {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no reader is connected: %+v", c.Links())
		}
	}
}

// One that connects and breaks at once is tried as seldom as one that does not connect.
func TestReaderPauses(t *testing.T) {
	pause, waited := firstReaderPause, time.Duration(0)
	for i, lived := range []time.Duration{0, time.Millisecond, 0, 900 * time.Millisecond, 0, 0, 0, 0, 0} {
		var wait time.Duration
		if wait, pause = afterReader(pause, lived); wait < firstReaderPause || wait > lastReaderPause || wait < min(2*waited, lastReaderPause) {
			t.Errorf("attempt %d: waits %v after %v", i, wait, waited)
		}
		waited = wait
	}
	if waited != lastReaderPause {
		t.Errorf("waits %v at last, want %v", waited, lastReaderPause)
	}
	if wait, next := afterReader(pause, steadyReader); wait != 0 || next != firstReaderPause {
		t.Errorf("after one that lived: waits %v, then %v", wait, next)
	}
}

// Workers that read from any member of the chains see what the mode promises, to the
// last float, while servers die and others take their places.
func TestReadAnyMember(t *testing.T) {
	seed := seedtest.Seed(t)
	rounds, kills := 24, 2
	if testing.Short() {
		rounds, kills = 16, 1
	}
	for _, c := range []struct {
		transport string
		staleness int
		read      Read
	}{{"tcp", 0, ReadAny}, {"shm", server.Async, ReadAny}, {"tcp", 2, ReadAny}, {"tcp", server.Async, ReadHead}} {
		if testing.Short() && c.read == ReadHead {
			continue
		}
		t.Run(fmt.Sprint(c.transport, " ", judge.ModeOf(c.staleness), " ", c.read), func(t *testing.T) {
			const workers, dense = 3, 50
			spec := table.Spec{Name: "a", Dim: 4, Init: table.Init{ZeroPrefix: 1}, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
			to := &audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}
			r := kvtest.NewReplicated(t, kvtest.Shape{Transport: c.transport, Servers: 3, Lanes: 2, Workers: workers, Staleness: c.staleness, Tables: []table.Spec{spec}, Dense: dense, Audit: to}, 2, 5)
			spec.ID = psmsg.TableID(spec.Name)
			rng := rand.New(rand.NewPCG(seed, 99))
			chains := r.Chains()
			var clients []*Client
			for id := range workers {
				k, err := Open(t.Context(), Config{Worker: id, Chains: chains, Read: c.read, Host: r.Host(), Timeout: 2 * time.Minute, Node: -1, Audit: recorderTo(to, dense)})
				must(t, err)
				t.Cleanup(k.Close)
				clients = append(clients, k)
			}
			if c.read == ReadAny {
				clients[0].awaitReaders(t)
			}
			var all sync.WaitGroup
			for id, k := range clients {
				a := newAuditedWorker(t, k, spec, dense, rand.New(rand.NewPCG(seed, uint64(id))))
				calls := 0
				if id == 0 {
					a.meanwhile = func() {
						if calls++; calls%(2*rounds/(kills+1)) == 0 {
							r.AwaitWhole()
							id := rng.IntN(3)
							r.Kill(id)
							r.Start(id)
						}
					}
				}
				all.Go(func() {
					a.train(t, rounds)
					must(t, k.Leave(t.Context()))
				})
			}
			all.Wait()
			for _, k := range clients {
				last, err := k.NewRows(spec)
				must(t, err)
				t.Cleanup(last.Close)
				plan(t, last, k.Audit().Keys())
				pull(t, k, last, 0, ReadOnly|AnyClock)
				must(t, k.Audit().Err())
				must(t, k.audit.Close())
				k.audit = nil
			}
			r.Stop()
			rep, err := judge.Dir(t.Context(), to.Dir, judge.Options{})
			must(t, err)
			run := rep.Runs[0]
			for _, v := range run.Violations {
				t.Error(v)
			}
			if !run.Consistent || run.Pulls == 0 || run.Values < rounds*20 || run.Pushes == 0 || run.Workers != workers {
				t.Errorf("%+v", *run)
			}
			t.Logf("%+v", *run)
		})
	}
}

// A pull that was overtaken at a reader is asked of the head, which is no slower than what
// was shown; at the head, of the head again.
func TestOvertakenAtAReader(t *testing.T) {
	for _, index := range []int{0, 1} {
		l := &laneConn{index: index, parts: make([]part, 2), floor: floors{7: 5}}
		c := &Client{lanes: []*laneConn{{}}, readers: []*reader{{}}}
		call := &Call{}
		l.parts[1] = part{active: true, call: call, kind: psmsg.KindPull, rows: &Rows{spec: table.Spec{ID: 7}}, least: 3}
		c.answer(l, 1, &psmsg.Reply{Version: 4})
		if atReader := index == 1; atReader != (len(c.orphans) == 1 && c.orphans[0].call == call && !l.parts[1].active && len(l.free) == 1) || atReader == (len(c.stale) == 1) {
			t.Errorf("lane %d: %d to ask of the head, %d again, slots %v free", index, len(c.orphans), len(c.stale), l.free)
		}
	}
}

// A pull whose answer is older than what another one has brought meanwhile is asked again,
// but one that is no newer than what it was asked for.
func TestOvertaken(t *testing.T) {
	rows := &Rows{spec: table.Spec{ID: 7}}
	for _, k := range []struct {
		p       part
		version uint64
		want    bool
	}{
		{part{kind: psmsg.KindPull, rows: rows, least: 3}, 4, true},
		{part{kind: psmsg.KindPull, rows: rows, least: 3}, 5, false},
		{part{kind: psmsg.KindPull, rows: rows, least: 3}, 6, false},
		{part{kind: psmsg.KindPull, rows: rows, least: 5}, 4, false}, // of a step that is over
		{part{kind: psmsg.KindPull, rows: rows, flags: psmsg.FlagNoValues}, 4, false},
		{part{kind: psmsg.KindPullDense, dense: &Dense{}}, 4, false},
		{part{kind: psmsg.KindPush, rows: rows}, 4, false},
	} {
		c, l := &Client{readers: []*reader{{}}}, &laneConn{floor: floors{7: 5, audit.DenseTable: 4}}
		if got := c.overtaken(l, &k.p, &psmsg.Reply{Version: k.version}); got != k.want {
			t.Errorf("%v asked for version %d, answered with %d of 5: %v", k.p.kind, k.p.least, k.version, got)
		}
	}
}
