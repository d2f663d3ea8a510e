package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/chain"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// call is a control call at a group's head, made until it is answered.
func (k *chainWorker) call(group int, method string, req, rep any) {
	k.w.t.Helper()
	k.w.until(method, func() bool {
		r, err := k.at(group)
		if err == nil {
			if err = r.call(method, req, rep); err == nil {
				return true
			}
		}
		k.w.t.Logf("%s: %v", method, err)
		k.lose(group)
		return false
	})
}

// What is no push is done by all replicas in one order: workers that leave and enter,
// tables that are opened, models that are loaded.
func TestChainOrders(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 2, tables: []table.Spec{sgdTable()}, dense: 6,
		change: func(c *Config) {
			c.Trainers.NewTable = func(*psmsg.TableRequest) error { return nil }
		}}, 3, []int{0, 1})
	keys := w.keysOf(0, 20)
	k, gone := w.worker(0, 5), w.worker(1, 9)
	k.push(0, 0, keys, 3, true)
	k.pushDense(0, 1, 1, false)
	gone.call(0, psmsg.MethodLeave, struct{}{}, nil)
	if v := k.pull(0, 1, keys, false); v[0] != -3 { // waits for nobody
		t.Errorf("a row is %v, want -3", v[0])
	}
	var made psmsg.TableReply
	spec := sgdTable()
	spec.ID = 0 // the servers make one
	k.call(0, psmsg.MethodTable, psmsg.TableRequest{Name: "later", Spec: &spec}, &made)
	if made.Refused != "" {
		t.Fatal(made.Refused)
	}
	w.join(w.nodes[2], 0)
	w.until("the third has caught up", func() bool { return w.caught.Load() == 1 })
	for _, s := range w.members(0) {
		if n := len(s.Tables()); n != 2 {
			t.Errorf("a replica has %d tables, want 2", n)
		}
	}
	step := uint64(2)
	k.call(0, psmsg.MethodEnter, psmsg.EnterRequest{Step: &step}, nil)
	want := w.alike()

	dir := t.TempDir()
	in, err := ckpt.Begin(dir)
	must(t, err)
	var saved psmsg.SaveReply
	k.call(0, psmsg.MethodSave, psmsg.SaveRequest{Dir: in.Path()}, &saved)
	m := ckpt.Manifest{Digest: saved.Digest, Slots: place.DefaultSlots, Meta: []byte("{}")}
	must(t, json.Unmarshal(saved.Parts, &m.Parts))
	m.Tables = w.members(0)[0].Tables()
	m.Dense = []ckpt.DenseSpec{{Name: "dense", ID: DenseID, Elements: 6}}
	must(t, in.Commit(m))
	k.push(0, 2, keys, 1, true)
	if w.alike() == want {
		t.Error("a push changed nothing")
	}
	k.call(0, psmsg.MethodLoad, psmsg.LoadRequest{Dir: dir}, nil)
	if got := w.alike(); got != want {
		t.Errorf("after loading the digest is %s, want %s", got, want)
	}

	w.cut(w.nodes[0])
	newer := w.worker(1, 10)
	var entered psmsg.EnterReply
	newer.call(0, psmsg.MethodEnter, psmsg.EnterRequest{Step: &step}, &entered)
	if code := newer.push(0, entered.Step, keys, 1, false); code != psmsg.CodeOK {
		t.Errorf("a newer client's push was answered %v", code)
	}
	w.alike()
}

// Events happen to all replicas, between the same pushes, also to those that join; what
// has ended is dropped by each of them.
func TestChainLifecycle(t *testing.T) {
	life := table.DefaultLifecycle()
	life.DeleteThreshold, life.ShowClickDecayRate, life.CreateValueWhenPush = 0.9, 0.5, true
	spec := sgdTable()
	spec.Lifecycle = &life
	for _, staleness := range []int{0, Async} {
		t.Run(fmt.Sprint("staleness ", staleness), func(t *testing.T) {
			seed := seedtest.Seed(t)
			r := rand.New(rand.NewPCG(seed, 3))
			w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 1, staleness: staleness, tables: []table.Spec{spec},
				options: chain.Options{ChunkBytes: 1024, FeedBytes: 4096}}, 3, []int{0, 1})
			k, keys := w.worker(0, 1), w.keysOf(0, 200)
			happened := 0
			for step := range uint64(30) {
				some := slices.DeleteFunc(slices.Clone(keys), func(uint64) bool { return r.IntN(3) > 0 })
				if code := k.push(0, step, some, float32(1+r.IntN(4)), true); code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
					t.Fatalf("step %d: the push was answered %v", step, code)
				}
				for _, kind := range []string{"s", "d"} {
					if r.IntN(3) == 0 {
						var rep psmsg.HappenReply
						k.call(0, psmsg.MethodHappen, psmsg.HappenRequest{Table: testTable, From: happened, Step: step + uint64(r.IntN(2)), Events: kind}, &rep)
						happened = rep.Len
					}
				}
				switch step {
				case 5:
					w.join(w.nodes[2], 0)
				case 15:
					w.cut(w.nodes[0])
				case 20:
					w.until("the first joiner has caught up", func() bool { return w.caught.Load() == 1 })
					w.join(w.start(), 0)
				}
			}
			w.until("the second joiner has caught up", func() bool { return w.caught.Load() == 2 })
			k.call(0, psmsg.MethodSwept, struct{}{}, nil)
			w.alike()
			var lives []psmsg.Lives
			for _, s := range w.members(0) {
				must(t, s.Swept(t.Context()))
				rep, err := s.Lives(psmsg.LivesRequest{Census: true})
				must(t, err)
				l := *rep.Tables[testTable]
				l.Gone, l.Sweeping = 0, false // each counts what it drops
				lives = append(lives, l)
			}
			for i := range lives {
				if lives[i] != lives[0] || lives[i].Events == 0 {
					t.Errorf("replica %d has lived %+v, the head %+v", i, lives[i], lives[0])
				}
			}
		})
	}
}
