package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// relay is a small training whose batches and gradients depend on the worker, the
// step and the values pulled. Element 0 of a row counts, so that it tells how often
// each example was; with values in the gradients, two runs of bsp end alike only
// where every pull had the same values.
type relay struct {
	w     *world
	spec  table.Spec
	steps uint64
}

const (
	relayWorkers = 3
	relayKeys    = 60
	relayDense   = 50
)

func newRelay(t *testing.T, transport string, staleness int) *relay {
	spec := sumTable(1, 2)
	r := &relay{spec: spec, steps: 6}
	r.w = newWorld(t, worldConfig{transport: transport, servers: 2, lanes: 2, workers: relayWorkers, staleness: staleness, tables: []table.Spec{spec}, dense: relayDense})
	return r
}

func (r *relay) keys(worker int, step uint64) []uint64 {
	rng := rand.New(rand.NewPCG(uint64(worker), step))
	var keys []uint64
	for _, k := range rng.Perm(relayKeys)[:1+rng.IntN(12)] {
		keys = append(keys, uint64(k))
	}
	return keys
}

// part is a worker with what it works on.
type relayPart struct {
	*relay
	worker int
	c      *Client
	rows   *Rows
	dense  *Dense
}

func (r *relay) part(worker int, c *Client) (*relayPart, error) {
	p := &relayPart{relay: r, worker: worker, c: c}
	var err error
	if p.rows, err = c.NewRows(r.spec); err == nil {
		p.dense, err = c.NewDense(relayDense, 1)
	}
	return p, err
}

// pushes is how many there are in a step.
func (p *relayPart) pushes() int { return len(p.dense.lanes) + len(p.c.lanes) }

// whole is the number of a point behind all pushes of a step.
const whole = 1 << 20

// step trains one step; it ends before push number stop of it, and reports whether
// it did.
func (p *relayPart) step(step uint64, stop int) (died bool, err error) {
	keys := p.keys(p.worker, step)
	index := [][]int32{make([]int32, len(keys))}
	if err := p.rows.Plan([][]uint64{keys}, index); err != nil {
		return false, err
	}
	var pull, pullDense, push, pushDense Call
	err = errors.Join(p.c.Pull(p.rows, step, 0, &pull), p.c.PullDense(p.dense, step, 0, &pullDense))
	if stop == 0 {
		return true, err
	}
	if err = errors.Join(err, p.c.Wait(&pull), p.c.Wait(&pullDense)); err != nil {
		return false, err
	}
	for i, row := range index[0] {
		v := p.rows.Values()[2*row+1]
		p.rows.Grads()[2*row] = -1
		p.rows.Grads()[2*row+1] = float32((int(v)*7+int(keys[i])+p.worker+int(step))%9 - 4)
	}
	for i := range p.dense.Grads() {
		p.dense.Grads()[i] = -float32(1 + (int(p.dense.Values()[i])+i)%2)
	}
	// As Client.Push and PushDense do, up to the point.
	push = Call{what: psmsg.KindPush, clock: step, inUse: &p.rows.calls}
	pushDense = Call{what: psmsg.KindPushDense, clock: step, inUse: &p.dense.calls}
	sent := 0
	for _, lane := range p.dense.lanes {
		if sent++; sent > stop {
			return true, nil
		}
		if err := p.c.issue(part{call: &pushDense, kind: psmsg.KindPushDense, clock: step, dense: p.dense, lane: lane, seq: p.c.nextSeq(lane)}); err != nil {
			return false, err
		}
	}
	for i := range p.c.lanes {
		if sent++; sent > stop {
			return true, nil
		}
		lane := p.c.rotate(i)
		if err := p.c.issue(part{call: &push, kind: psmsg.KindPush, clock: step, rows: p.rows, lane: lane, flags: psmsg.FlagTick, seq: p.c.nextSeq(lane)}); err != nil {
			return false, err
		}
	}
	if sent == stop {
		return true, nil
	}
	return false, errors.Join(p.c.Wait(&push), p.c.Wait(&pushDense))
}

// goOn takes a dead worker's number over, and finishes for it.
func (r *relay) goOn(ctx context.Context, worker, generation int, begun func()) (from uint64, exact bool, err error) {
	c, err := Open(ctx, Config{Worker: worker, Generation: generation, Map: r.w.m, Host: r.w.host(), Timeout: 2 * time.Minute, Node: -1})
	if err != nil {
		return 0, false, err
	}
	r.w.t.Cleanup(c.Close)
	p, err := r.part(worker, c)
	if err != nil {
		return 0, false, err
	}
	each := make([]uint64, c.Lanes())
	for i := range each {
		each[i] = 1
	}
	for _, lane := range p.dense.Lanes() {
		each[lane]++
	}
	from, exact = clock.None, true
	for i, s := range c.Standing() {
		if s.Last/each[i] != s.At {
			return 0, false, fmt.Errorf("lane %d: %+v with %d pushes a step", i, s, each[i])
		}
		from = min(from, s.At)
	}
	for _, s := range c.Standing() {
		exact = exact && s.Applied <= from
	}
	if err := c.GoOn(ctx, from, func(lane int) uint64 { return from * each[lane] }); err != nil {
		return 0, false, err
	}
	begun()
	for step := from; step < r.steps; step++ {
		if _, err := p.step(step, whole); err != nil {
			return 0, false, err
		}
	}
	return from, exact, nil
}

// death is where a worker dies: before push number point of a step. Where it is
// late, the others have done what they can before; a stopped one wakes again when
// another has its number.
type death struct {
	step          uint64
	point         int
	late, stopped bool
}

// play trains, with worker 1 dying if d is given.
func (r *relay) play(d *death) (digest table.Digest, exact bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	errs := make([]error, relayWorkers)
	exact = true
	reached := make([]chan struct{}, relayWorkers) // the others have done what they can without worker 1
	gate := make(chan struct{})                    // worker 1 is dead
	open := sync.OnceFunc(func() { close(gate) })
	var all sync.WaitGroup
	parts := make([]*relayPart, relayWorkers)
	for id := range relayWorkers {
		reached[id] = make(chan struct{})
		c, err := Open(ctx, Config{Worker: id, Generation: 1, Map: r.w.m, Host: r.w.host(), Timeout: 2 * time.Minute, Node: -1})
		if err != nil {
			return digest, false, err
		}
		r.w.t.Cleanup(c.Close)
		if parts[id], err = r.part(id, c); err != nil {
			return digest, false, err
		}
	}
	for id, p := range parts {
		all.Go(func() {
			if id == 1 {
				defer open() // whatever ends it
			}
			for step := range r.steps {
				if d != nil && id != 1 && step == d.step && !d.late {
					<-gate
				}
				if d != nil && id == 1 && step == d.step {
					if d.late {
						<-reached[0]
						<-reached[2]
					}
					if _, errs[id] = p.step(step, d.point); errs[id] != nil {
						return
					}
					if !d.stopped {
						p.c.Close()
					}
					_, exact, errs[id] = r.goOn(ctx, 1, 2, open)
					if d.stopped && errs[id] == nil {
						if _, err := p.step(step, whole); !errors.Is(err, ErrTakenOver) {
							errs[id] = fmt.Errorf("a process whose number was taken over trains: %v", err)
						}
					}
					return
				}
				var err error
				if d != nil && id != 1 && step == d.step && d.late {
					err = p.ahead(step, reached[id])
				} else {
					_, err = p.step(step, whole)
				}
				if err != nil {
					errs[id] = err
					return
				}
			}
		})
	}
	all.Wait()
	return r.w.digest(), exact, errors.Join(errs...)
}

// ahead is step that tells when the servers have all its pushes.
func (p *relayPart) ahead(step uint64, told chan struct{}) error {
	if died, err := p.step(step, p.pushes()); !died {
		return fmt.Errorf("it was to stop behind its pushes: %v", err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for taken := false; !taken; {
		taken = true
		for _, s := range p.w.servers {
			st, err := s.Stats()
			if err != nil {
				return err
			}
			for _, l := range st.Lanes {
				taken = taken && l.Clocks[p.worker] > int64(step)
			}
		}
		if time.Now().After(deadline) {
			return errors.New("the servers do not have its pushes")
		}
		if err := p.c.Poll(); err != nil {
			return err
		}
	}
	close(told)
	for p.rows.calls > 0 || p.dense.calls > 0 {
		if err := p.c.progress(deadline); err != nil {
			return err
		}
	}
	return nil
}

// counts says whether each row was pushed as often as it should have been.
func (r *relay) counts() error {
	c, err := Open(context.Background(), Config{Worker: 0, Generation: 9, Map: r.w.m, Host: r.w.host(), Timeout: 2 * time.Minute, Node: -1})
	if err != nil {
		return err
	}
	r.w.t.Cleanup(c.Close)
	want := make([]int, relayKeys)
	for id := range relayWorkers {
		for step := range r.steps {
			for _, k := range r.keys(id, step) {
				want[k]++
			}
		}
	}
	rows := r.w.rows(c, r.spec)
	keys := make([]uint64, relayKeys)
	for i := range keys {
		keys[i] = uint64(i)
	}
	index := plan(r.w.t, rows, keys)
	pull(r.w.t, c, rows, 0, ReadOnly|AnyClock)
	for k, row := range index {
		if got := rows.Values()[2*row]; got != float32(want[k]) {
			return fmt.Errorf("key %d was counted %v times, want %d", k, got, want[k])
		}
	}
	return nil
}

// A worker dies before any of its pushes, or is stopped there and wakes up again,
// and another process goes on for it: every push counts once in every mode, and bsp
// ends as it would have, unless the new process was told that it cannot.
func TestTakenOverAnywhere(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, tr := range []string{"shm", "tcp" + grants} {
		for _, staleness := range []int{0, 1, server.Async} {
			t.Run(fmt.Sprintf("%s staleness %d", tr, staleness), func(t *testing.T) {
				undisturbed, _, err := newRelay(t, tr, staleness).play(nil)
				must(t, err)
				rng := rand.New(rand.NewPCG(seed, uint64(staleness)))
				exactly, points := 0, 1+1+4
				for point := range points + 1 {
					if staleness != 0 && point%3 > 0 || testing.Short() && tr != "shm" {
						continue
					}
					d := &death{step: uint64(rng.IntN(5)), point: point, late: staleness == 0 && rng.IntN(2) == 0, stopped: rng.IntN(2) == 0}
					if point == points && staleness == 0 { // behind the answers, which come when all have pushed
						d.late = true
					}
					r := newRelay(t, tr, staleness)
					digest, exact, err := r.play(d)
					if err != nil {
						t.Fatalf("%+v: %v", *d, err)
					}
					if err := r.counts(); err != nil {
						t.Errorf("%+v: %v", *d, err)
					}
					if exact {
						exactly++
					}
					if staleness == 0 && exact && digest != undisturbed {
						t.Errorf("%+v: another digest than undisturbed", *d)
					}
					if staleness == 0 && !d.late && !exact {
						t.Errorf("%+v: not exact, and no step could have been whole", *d)
					}
				}
				t.Logf("%d were exact", exactly)
			})
		}
	}
}

// Who goes on hears of a head that has lost the values of before only as long as he has pushed
// nothing to its lane: later pulls are of steps that are nobody's but his.
func TestInexact(t *testing.T) {
	lost := psmsg.Standing{At: 5, Applied: 6}
	kept := psmsg.Standing{At: 5, Applied: 6, Retained: true}
	for _, c := range []struct {
		goesOn  bool
		newest  psmsg.Standing
		pushed  uint64
		inexact bool
	}{{true, lost, 0, true}, {true, kept, 0, false}, {true, lost, 1, false}, {false, lost, 0, false}} {
		x := &Client{goesOn: c.goesOn, from: 5}
		x.lookBack(&laneConn{before: 10, seq: 10 + c.pushed, newest: c.newest})
		if x.Inexact() != c.inexact {
			t.Errorf("%+v: inexact %v", c, x.Inexact())
		}
	}
}

// TestPartsAreCounted: of a worker that pushes for several, lanes count each one's pushes once,
// and tell who goes on for it.
func TestPartsAreCounted(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, worldConfig{transport: transport, servers: 1, lanes: 2, workers: 1, staleness: clock.Async, tables: []table.Spec{sumTable(1, 2)}, dense: relayDense})
			var sent uint64
			for generation, parts := range [][]int{{2, 0, 2}, {2, 3}, {}} { // the last push of a process is sent again by the next
				c, err := Open(t.Context(), Config{Worker: 0, Generation: 1 + generation, Map: w.m, Host: w.host(), Timeout: 2 * time.Minute, Node: -1})
				must(t, err)
				d, err := c.NewDense(relayDense, 1)
				must(t, err)
				lane := d.Lanes()[0]
				want := [][]uint64{nil, {1, 0, 2}, {1, 0, 2, 1}}[generation]
				if s := c.Standing()[lane]; s.Last != sent || !slices.Equal(s.Parts, want) {
					t.Fatalf("process %d is told %+v, want %v of %d", 1+generation, s, want, sent)
				}
				if generation > 0 {
					sent--
				}
				must(t, c.GoOn(t.Context(), 0, func(int) uint64 { return sent }))
				for _, part := range parts {
					var call Call
					must(t, c.PushDensePart(d, 0, part, true, &call))
					must(t, c.Wait(&call))
					sent++
				}
				c.Close()
			}
		})
	}
}
