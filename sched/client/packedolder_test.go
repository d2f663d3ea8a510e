package client

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/compress"
	"psrt/sched/densemap"
	"psrt/sched/kv/kvtest"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A job with replicas and compression is taken to the release before compression, and
// back, server by server, while a worker trains. What was packed and not answered is sent
// again as it is understood; each push counts once, topk leaves nothing out, and once the
// last older server has gone, pushes are compressed again.
func TestCompressedBackAndForth(t *testing.T) {
	for _, c := range []struct {
		choice    compress.Choice
		staleness int
	}{{compress.Choice{Code: compress.Byte}, server.Async}, {compress.Choice{Code: compress.Top, Share: .1}, 0}} {
		t.Run(c.choice.String(), func(t *testing.T) { backAndForth(t, c.choice, c.staleness) })
	}
}

func backAndForth(t *testing.T, choice compress.Choice, staleness int) {
	const older, keys, n = psmsg.PackedSince - 1, 300, 1000
	spec := sumTable(1, 3)
	spec.ID = psmsg.TableID(spec.Name)
	r := kvtest.NewReplicated(t, kvtest.Shape{Transport: "tcp", Servers: 3, Lanes: 1, Workers: 1, Staleness: staleness, Tables: []table.Spec{spec}, Dense: n}, 2, 3)
	r.Whole()
	c, err := Open(context.Background(), Config{Chains: r.Chains(), Host: r.Host(), Timeout: 2 * time.Minute, Node: -1, Compress: choice})
	must(t, err)
	defer c.Close()
	rows, err := c.NewRows(spec)
	must(t, err)
	defer rows.Close()
	dense, err := c.NewDense(n, 1)
	must(t, err)
	defer dense.Close()
	dense.Cut([]densemap.Block{{Len: n, Rule: "grad"}})
	rng := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	ids := make([]uint64, keys)
	for i := range ids {
		ids[i] = rng.Uint64()
	}
	stop, ended := make(chan struct{}), make(chan uint64)
	go func() {
		step := uint64(0)
		defer func() { ended <- step }()
		for last := false; !last; step++ {
			select {
			case <-stop:
				last = true
			default:
			}
			plan(t, rows, ids)
			pull(t, c, rows, step, 0)
			for i := range rows.Grads() {
				rows.Grads()[i] = 1
			}
			c.SendAll(last)
			var a, b Call
			for i := range dense.Grads() {
				dense.Grads()[i] = 1
			}
			must(t, c.PushDense(dense, step, true, &a))
			must(t, c.Push(rows, step, true, &b))
			must(t, c.Wait(&a))
			must(t, c.Wait(&b))
		}
	}()
	for _, next := range []int{older, psmsg.Version} {
		for id := range 3 {
			r.Speaks = next
			r.Kill(id)
			r.Start(id)
			r.AwaitWhole()
		}
	}
	whole := c.Compressed()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s := c.Compressed()
		if s.PackedBytes-whole.PackedBytes < s.FloatBytes-whole.FloatBytes {
			break
		}
		if time.Now().After(end) {
			t.Errorf("nothing is compressed since all servers know it again: %+v, then %+v", whole, s)
			break
		}
	}
	close(stop)
	steps := <-ended
	plan(t, rows, ids)
	pull(t, c, rows, steps, 0)
	var pulled Call
	must(t, c.PullDense(dense, steps, 0, &pulled))
	must(t, c.Wait(&pulled))
	for i, v := range append(dense.Values(), rows.Values()...) {
		if math.Abs(float64(v)+float64(steps)) > 1e-3*float64(steps) {
			t.Fatalf("value %d: %v after %d steps", i, v, steps)
		}
	}
	t.Logf("%d steps, %+v", steps, c.Compressed())
}
