package kv

import (
	"context"
	"slices"
	"testing"
	"time"

	"psrt/sched/kv/kvtest"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A job with replicas is taken from one release to the next, server by server, while a
// trainer pushes: each push counts once, and what is spoken is what the oldest server
// of a chain knows. Then it is taken back.
func TestServersOfTwoReleases(t *testing.T) {
	const older, keys = psmsg.Version - 1, 20
	r := kvtest.NewOlder(t, kvtest.Shape{Transport: "tcp", Servers: 3, Lanes: 1, Workers: 1, Staleness: server.Async}, 2, 3, older)
	spec := counting("clicks", 1)
	c, err := Open(context.Background(), Config{Servers: []string{r.Addr(0)}, Token: r.Token, Transport: "tcp", Tables: []table.Spec{spec},
		Timeout: Duration(2 * time.Minute), ConnectTimeout: Duration(2 * time.Minute)})
	must(t, err)
	t.Cleanup(c.Close)
	tb, err := c.Table(spec.Name)
	must(t, err)
	ids, ones, values := make([]uint64, keys), make([]float32, keys), make([]float32, keys)
	for i := range ids {
		ids[i], ones[i] = uint64(i)*7, 1
	}
	pushes := 0
	push := func() {
		must(t, tb.Push(ids, ones, Options{}))
		must(t, c.Tick(0))
		pushes++
	}
	speak := func(want ...int) {
		t.Helper()
		if got := r.Spoken(); !slices.Equal(got, want) {
			t.Errorf("groups speak %v, want %v", got, want)
		}
	}
	r.Whole()
	speak(older)
	for _, next := range []int{psmsg.Version, older} {
		for id := range 3 {
			push()
			r.Speaks = next
			r.Kill(id)
			push()
			r.Start(id)
			push()
			r.Whole()
			push()
			if id == 0 { // of three groups of two servers at three, one has none of the other release
				if got := r.Spoken(); !slices.Contains(got, older) {
					t.Errorf("with servers of both releases groups speak %v", got)
				}
			}
		}
		speak(next)
		must(t, tb.Pull(ids, values, Options{}))
		for i, v := range values {
			if v != -float32(pushes) {
				t.Errorf("row %d: %v after %d pushes", i, v, pushes)
			}
		}
	}
}
