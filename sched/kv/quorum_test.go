package kv

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// job is servers whose workers come and go.
type job struct {
	t     testing.TB
	addr  string
	token []byte
	kill  func() // the server that clients ask first, and whose rows others have
}

// jobs runs a test against servers without and with replicas.
func jobs(t *testing.T, staleness int, f func(t *testing.T, j job)) {
	shape := kvtest.Shape{Transport: "tcp", Servers: 2, Lanes: 1, Workers: 6, Staleness: staleness, Open: true, ReconnectFor: 300 * time.Millisecond}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		w := kvtest.New(t, shape)
		f(t, job{t: t, addr: w.Listen[0], token: w.Token})
	})
	t.Run("replicas", func(t *testing.T) {
		t.Parallel()
		shape := shape
		shape.Servers = 3
		r := kvtest.NewReplicated(t, shape, 2, 3)
		f(t, job{t: t, addr: r.Addr(0), token: r.Token, kill: func() { r.Kill(r.Head()) }})
	})
}

func (j job) try(worker, workers int, timeout time.Duration) (*Client, *Table, error) {
	cfg := Config{Servers: []string{j.addr}, Token: j.token, Worker: worker, Workers: workers, Transport: "tcp", Timeout: Duration(timeout),
		ConnectTimeout: Duration(2 * time.Minute), Tables: []table.Spec{counting("t", 1)}}
	c, err := Open(context.Background(), cfg)
	if err != nil {
		return nil, nil, err
	}
	tab, err := c.Table("t")
	return c, tab, err
}

func (j job) open(worker, workers int) (*Client, *Table) {
	j.t.Helper()
	c, tab, err := j.try(worker, workers, 2*time.Minute)
	must(j.t, err)
	j.t.Cleanup(c.Close)
	return c, tab
}

// die is Close without a goodbye.
func die(c *Client) {
	c.closed.Store(true)
	c.cancel()
	c.helpers.Wait()
	c.c.Close()
	for _, t := range c.order {
		t.sets.close()
	}
	c.tick.Close()
	c.host.Close()
}

// step pushes one, ends the step, and gives what a pull of the next one shows.
func step(t testing.TB, c *Client, tab *Table) float32 {
	t.Helper()
	must(t, tab.Push([]uint64{7}, []float32{1}, Options{}))
	must(t, c.Tick(0))
	return value(t, tab, Options{})
}

func value(t testing.TB, tab *Table, o Options) float32 {
	t.Helper()
	v := make([]float32, 1)
	must(t, tab.Pull([]uint64{7}, v, o))
	return v[0]
}

// No step of bsp takes effect before all workers of the job were there; whoever waits is
// told who is missing.
func TestWorkersAreWaitedFor(t *testing.T) {
	jobs(t, 0, func(t *testing.T, j job) {
		a, at, err := j.try(0, 2, 700*time.Millisecond)
		must(t, err)
		t.Cleanup(a.Close)
		if v := value(t, at, Options{}); v != 0 {
			t.Errorf("step 0 shows %v", v)
		}
		must(t, at.Push([]uint64{7}, []float32{1}, Options{}))
		err = a.Tick(0)
		if err == nil { // with replicas a step's end is acknowledged before the step is over
			err = at.Pull([]uint64{7}, make([]float32, 1), Options{})
		}
		wantCode(t, err, Timeout, "1 of 2 workers are there", "worker 1 did not come", "workers: 2")
		if v := value(t, at, Options{AnyClock: true}); v != 0 {
			t.Errorf("step 0 took effect before worker 1 was there: %v", v)
		}
		b, bt := j.open(1, 2)
		if b.Step() != 0 {
			t.Errorf("worker 1 begins in step %d", b.Step())
		}
		if v := step(t, b, bt); v != -2 {
			t.Errorf("after both ended step 0 there is %v", v)
		}
		if v := value(t, at, Options{Timeout: time.Minute}); v != -2 {
			t.Errorf("worker 0 sees %v", v)
		}
	})
}

// Two workers with one number get two places, a third is refused, as is another number of
// workers; one that left may come again.
func TestWorkersThatAreTooMany(t *testing.T) {
	jobs(t, 0, func(t *testing.T, j job) {
		a, at := j.open(1, 2)
		b, bt := j.open(1, 2)
		if a.Worker() == b.Worker() || a.Worker()+b.Worker() != 1 {
			t.Fatalf("workers %d and %d", a.Worker(), b.Worker())
		}
		_, _, err := j.try(0, 2, time.Minute)
		wantCode(t, err, Refused, "all 2 workers are there", "workers 0, 1")
		_, _, err = j.try(2, 3, time.Minute)
		wantCode(t, err, BadConfig, "workers is 3 here and 2 at")
		var both sync.WaitGroup
		both.Go(func() { step(t, a, at) })
		step(t, b, bt)
		both.Wait()
		b.Close()
		if v := step(t, a, at); v != -3 { // alone
			t.Errorf("%v after three pushes", v)
		}
		c, ct := j.open(0, 2)
		both.Go(func() { step(t, a, at) })
		step(t, c, ct)
		both.Wait()
	})
}

// In asp nobody is waited for, and workers says only who meets in a barrier.
func TestWorkersOfAsp(t *testing.T) {
	jobs(t, server.Async, func(t *testing.T, j job) {
		for i := range 3 {
			c, tab := j.open(0, 2)
			if v := step(t, c, tab); v != -float32(i+1) {
				t.Errorf("client %d sees %v", i, v)
			}
		}
	})
}

// A worker that dies and is started again gets its place when the servers have given the
// process before it up.
func TestWorkerStartedAgain(t *testing.T) {
	jobs(t, 0, func(t *testing.T, j job) {
		a, at := j.open(0, 2)
		b, _, err := j.try(1, 2, time.Minute)
		must(t, err)
		die(b)
		again, tab := j.open(1, 2)
		if again.Worker() != 1 {
			t.Errorf("it is worker %d", again.Worker())
		}
		var both sync.WaitGroup
		both.Go(func() { step(t, a, at) })
		step(t, again, tab)
		both.Wait()
	})
}

// A worker that has finished its steps is not waited for, answers, and pushes no more: in
// every mode, at servers that fail over, too.
func TestFinishSteps(t *testing.T) {
	for name, staleness := range map[string]int{"bsp": 0, "ssp": 2, "asp": server.Async} {
		t.Run(name, func(t *testing.T) {
			jobs(t, staleness, func(t *testing.T, j job) {
				a, at := j.open(0, 2)
				b, bt := j.open(1, 2)
				var both sync.WaitGroup
				both.Go(func() {
					for range 2 {
						step(t, a, at)
					}
					if staleness == 0 {
						must(t, at.Push([]uint64{7}, []float32{1}, Options{}))
						wantCode(t, a.FinishSteps(0), Busy, "call clock")
						must(t, a.Tick(0))
					}
					must(t, a.FinishSteps(0))
					must(t, a.FinishSteps(0))
					if j.kill != nil {
						j.kill()
					}
					for _, err := range []error{at.Push([]uint64{7}, []float32{1}, Options{}), a.Tick(0)} {
						wantCode(t, err, Clock, "worker 0 has finished its steps")
					}
					value(t, at, Options{})
					must(t, a.Barrier(0))
				})
				for range 9 {
					step(t, b, bt)
				}
				must(t, b.Barrier(0))
				both.Wait()
				want := float32(-11)
				if staleness == 0 {
					want--
				}
				if v := value(t, at, Options{}); v != want {
					t.Errorf("worker 0 sees %v, want %v", v, want)
				}
				must(t, b.FinishSteps(0)) // all have
				both.Go(func() { must(t, a.Barrier(0)) })
				must(t, b.Barrier(0))
				both.Wait()
				a.Close()
				b.Close()
				c, ct := j.open(0, 0) // a new one takes part
				if v := step(t, c, ct); v != want-1 {
					t.Errorf("a new worker sees %v, want %v", v, want-1)
				}
			})
		})
	}
}

// A worker that has finished and dies keeps nobody waiting, and its place is free.
func TestFinishedDies(t *testing.T) {
	jobs(t, 0, func(t *testing.T, j job) {
		a, _, err := j.try(0, 2, time.Minute)
		must(t, err)
		b, bt := j.open(1, 2)
		must(t, a.FinishSteps(0))
		die(a)
		for range 3 {
			step(t, b, bt)
		}
		again, tab := j.open(0, 2)
		if again.Worker() != 0 || again.Step() != b.Step() {
			t.Errorf("worker %d in step %d, the other is in %d", again.Worker(), again.Step(), b.Step())
		}
		var both sync.WaitGroup
		both.Go(func() { step(t, again, tab) })
		step(t, b, bt)
		both.Wait()
	})
}

// A server that is started again learns that a worker has finished from the worker.
func TestFinishedReconnects(t *testing.T) {
	t.Parallel()
	w := kvtest.New(t, kvtest.Shape{Transport: "tcp", Servers: 1, Lanes: 1, Workers: 4, Open: true})
	j := job{t: t, addr: w.Listen[0], token: w.Token}
	a, at := j.open(0, 2)
	b, bt := j.open(1, 2)
	must(t, a.FinishSteps(0))
	step(t, b, bt)
	w.Kill(0)
	w.Start(0)
	value(t, at, Options{}) // it is connected again
	for range 3 {
		step(t, b, bt)
	}
	wantCode(t, at.Push([]uint64{7}, []float32{1}, Options{}), Clock, "has finished")
}

// A server that is started again waits for the workers of before as long as for one that broke its connection: those that
// are back first end no step without the others, and one that left before is not waited for beyond that.
func TestRestartedServerWaits(t *testing.T) {
	t.Parallel()
	const back = 700 * time.Millisecond
	w := kvtest.New(t, kvtest.Shape{Transport: "tcp", Servers: 1, Lanes: 1, Workers: 4, Open: true, ReconnectFor: back})
	j := job{t: t, addr: w.Listen[0], token: w.Token}
	a, at := j.open(0, 2)
	b, bt := j.open(1, 2)
	var both sync.WaitGroup
	both.Go(func() { step(t, a, at) })
	both.Go(func() { step(t, b, bt) })
	both.Wait()
	b.Close() // in good order: the server of before does not wait for it
	step(t, a, at)
	w.Kill(0)
	began := time.Now()
	w.Start(0)
	step(t, a, at)
	if took := time.Since(began); took < back {
		t.Errorf("a step was over %v after the server was started again; it waits %v for the others", took, back)
	}
	step(t, a, at)
}

// A worker in a barrier ends no step: it and the one that waits for its step are told, by
// name, long before their time is over.
func TestBarrierThatCannotOpen(t *testing.T) {
	for name, staleness := range map[string]int{"bsp": 0, "ssp": 1} {
		t.Run(name, func(t *testing.T) {
			jobs(t, staleness, func(t *testing.T, j job) {
				a, at := j.open(0, 2)
				b, bt := j.open(1, 2)
				var both sync.WaitGroup
				began := time.Now()
				both.Go(func() {
					must(t, at.Push([]uint64{7}, []float32{1}, Options{}))
					must(t, a.Tick(0))
					wantCode(t, a.Barrier(0), Clock, "worker 0 waits in a barrier that worker 1 cannot reach", "end step 1", "finish_steps")
				})
				var err error
				for range 6 {
					if err = bt.Push([]uint64{7}, []float32{1}, Options{}); err == nil {
						err = b.Tick(0)
					}
					if err == nil {
						err = bt.Pull([]uint64{7}, make([]float32, 1), Options{})
					}
					if err != nil {
						break
					}
				}
				wantCode(t, err, Clock, "worker 0 waits in a barrier", "has not ended step 1", "finish_steps")
				both.Wait()
				if took := time.Since(began); took > time.Minute {
					t.Errorf("that took %v", took)
				}
				must(t, a.FinishSteps(0)) // as it was told
				both.Go(func() { must(t, a.Barrier(0)) })
				must(t, b.Barrier(0))
				both.Wait()
			})
		})
	}
}

// A step of bsp may be of any number of tables.
func TestManyTablesAStep(t *testing.T) {
	jobs(t, 0, func(t *testing.T, j job) {
		sizes := []int{1, 8, 200}
		if j.kill != nil { // replicas acknowledge what is ordered, and so need no room
			sizes = []int{8, 64}
		}
		for _, n := range sizes {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				var specs []table.Spec
				for i := range n {
					specs = append(specs, counting(fmt.Sprintf("t%d", i), 1))
				}
				keys, grads := []uint64{1, 2, 3, 4}, []float32{1, 2, 3, 4}
				var clients []*Client
				for w := range 2 {
					c, err := Open(context.Background(), Config{Servers: []string{j.addr}, Token: j.token, Worker: w, Workers: 2, Transport: "tcp", Timeout: Duration(2 * time.Minute),
						ConnectTimeout: Duration(2 * time.Minute), Tables: specs})
					must(t, err)
					defer c.Close()
					clients = append(clients, c)
				}
				first := float32(0)
				work := func(c *Client, mine *float32) {
					for s := range 2 {
						for i := range n {
							tab, err := c.Table(specs[i].Name)
							must(t, err)
							v := make([]float32, len(keys))
							must(t, tab.Pull(keys, v, Options{}))
							if s == 0 && i == 0 {
								*mine = v[3]
							}
							// a table has been pushed to as often as were sizes before this one that had it
							if want := v[0] * 4; v[3] != want || s > 0 && i == 0 && v[3] != *mine-8 {
								t.Errorf("worker %d step %d table %d: %v", c.Worker(), s, i, v)
							}
							must(t, tab.Push(keys, grads, Options{}))
						}
						must(t, c.Tick(0))
					}
				}
				var both sync.WaitGroup
				other := float32(0)
				both.Go(func() { work(clients[1], &other) })
				work(clients[0], &first)
				both.Wait()
				for i := range n {
					tab, err := clients[0].Table(specs[i].Name)
					must(t, err)
					v := make([]float32, len(keys))
					must(t, tab.Pull(keys, v, Options{}))
					if v[0] > -4 || v[3] != 4*v[0] {
						t.Errorf("table %d after two steps of two workers: %v", i, v)
					}
				}
			})
		}
	})
}

// The bound of the wait after a restart does not end the wait of the next job's workers.
func TestNextJobAfterRestartWaits(t *testing.T) {
	t.Parallel()
	const back = 400 * time.Millisecond
	w := kvtest.New(t, kvtest.Shape{Transport: "tcp", Servers: 1, Lanes: 1, Workers: 4, Open: true, ReconnectFor: back})
	j := job{t: t, addr: w.Listen[0], token: w.Token}
	a, at := j.open(0, 2)
	b, bt := j.open(1, 2)
	var both sync.WaitGroup
	both.Go(func() { step(t, a, at) })
	both.Go(func() { step(t, b, bt) })
	both.Wait()
	b.Close()
	w.Kill(0)
	w.Start(0)
	value(t, at, Options{AnyClock: true}) // it is connected again, and waits for worker 1
	a.Close()
	c, ct := j.open(0, 2) // the next job
	over := make(chan struct{})
	go func() {
		defer close(over)
		step(t, c, ct)
	}()
	select {
	case <-over:
		t.Error("a step of the next job was over before its second worker came")
	case <-time.After(2 * back):
	}
	d, dt := j.open(1, 2)
	step(t, d, dt)
	<-over
}
