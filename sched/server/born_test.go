package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/tiers"
	"psrt/tiers/table"
)

// bornTable's rows are made by pushes, and weigh something from the first on.
func bornTable() table.Spec {
	life := table.DefaultLifecycle()
	life.EmbedxThreshold = 0
	spec := sgdTable()
	spec.Init, spec.Lifecycle = table.Init{Kind: table.InitUniform, Scale: 1}, &life
	return spec
}

// late has a server's rows come some time after they were asked for.
func late(t *testing.T) func(*Config) {
	return func(c *Config) {
		c.Rows = func(r RowsConfig) (tiers.Rows, error) {
			rows, err := InMemory(r)
			if err != nil {
				return nil, err
			}
			return slowtest.New(rows, slowtest.Config{Seed: 1, Late: time.Millisecond, Always: true, Wake: r.Wake, Report: t.Errorf}, &slowtest.Counts{}), nil
		}
	}
}

// A row that a step's push makes is not there for any pull of that step, whichever worker
// came first, nor for one that asks the step back; also where the worker that pushed has
// gone since. So is the end.
func TestBornWithTheStep(t *testing.T) {
	var want table.Digest
	for _, c := range []struct {
		name   string
		plain  bool
		change func(*Config)
	}{{"plain", true, nil}, {"late", true, late(t)}, {"chain", false, nil}} {
		for _, transport := range []string{"shm", "tcp"} {
			for first := range 2 {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, transport, first), func(t *testing.T) {
					got := bornWithTheStep(t, transport, c.plain, c.change, first)
					if want == (table.Digest{}) {
						want = got
					}
					if got != want {
						t.Errorf("the digest is %s, was %s", got, want)
					}
				})
			}
		}
	}
}

func bornWithTheStep(t *testing.T, transport string, plain bool, change func(*Config), first int) table.Digest {
	servers := []int{0, 1}
	if plain {
		servers = servers[:1]
	}
	w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 2, tables: []table.Spec{bornTable()}, plain: plain,
		change: func(c *Config) {
			if c.Retain = true; change != nil {
				change(c)
			}
		}}, len(servers), servers)
	l := w.nodes[0].servers[0].lanes[0]
	on := func(f func()) { t.Helper(); must(t, l.do(time.Minute, f)) }
	all := w.keysOf(0, 40)
	workers := []*chainWorker{w.worker(0, 1), w.worker(1, 2)}
	known := map[uint64]bool{}
	for step := range uint64(4) {
		k, slow := workers[(first+int(step))%2], workers[(first+int(step)+1)%2]
		lists := [][]uint64{all[6*step:][:12], all[6*step+3:][:12]} // by worker
		keys := all[6*step:][:15]
		before := slices.Clone(k.pull(0, step, keys, false))
		for i, key := range keys {
			if zero := !slices.ContainsFunc(before[i*testDim:][:testDim], func(v float32) bool { return v != 0 }); zero == known[key] {
				t.Fatalf("step %d: of key %d, which was pushed: %v, there is %v", step, key, known[key], before[i*testDim:][:testDim])
			}
		}
		k.push(0, step, lists[k.number], float32(1+k.number), true)
		w.until("the push is held", func() (is bool) {
			on(func() { is = len(l.tables[testTable].held) == 1 })
			return is
		})
		if plain && step == 2 { // its process ends, and the next one goes on behind the step
			k.lose(0)
			k.unanswered[0] = 0
			w.until("it is missed", func() (is bool) {
				on(func() { is = l.current[k.number] == nil })
				return is
			})
		}
		if got := slow.pull(0, step, keys, false); !slices.Equal(got, before) {
			t.Fatalf("step %d: after a push of it a pull gives %v, was %v", step, got, before)
		}
		slow.push(0, step, lists[slow.number], float32(1+slow.number), true)
		w.until("the step is applied", func() (is bool) {
			on(func() { is = l.clock.Min() == step+1 && len(l.tables[testTable].held) == 0 })
			return is
		})
		slow.collect(0)
		k.collect(0)
		if got := slow.pull(0, step, keys, false); !slices.Equal(got, before) {
			t.Fatalf("step %d, which is over: a pull gives %v, was %v", step, got, before)
		}
		for _, key := range keys {
			known[key] = true
		}
	}
	return w.alike()
}

// barren has room for no new row.
type barren struct{ tiers.Rows }

func (b barren) Start(l *tiers.Lookup) bool {
	if l.Create {
		l.Err = tiers.ErrBudget
		return true
	}
	return b.Rows.Start(l)
}

// A push whose rows cannot be made when its step is applied is refused, and the job can
// go on without it.
func TestUnbornForWantOfRoom(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{bornTable()}, plain: true,
		change: func(c *Config) {
			c.Rows = func(r RowsConfig) (tiers.Rows, error) {
				rows, err := InMemory(r)
				return barren{rows}, err
			}
		}}, 1, []int{0})
	k, keys := w.worker(0, 1), w.keysOf(0, 5)
	for step := range uint64(3) {
		k.push(0, step, keys, 1, true)
		if rep, ok := k.raws[0].wait(patience); !ok || rep.Code != psmsg.CodeNoMemory {
			t.Fatalf("step %d: the push was answered %v, %v", step, rep.Code, ok)
		}
		k.unanswered[0] = 0
	}
	if got := k.pull(0, 3, keys, false); slices.ContainsFunc(got, func(v float32) bool { return v != 0 }) {
		t.Errorf("rows for which there was no room have %v", got)
	}
}
