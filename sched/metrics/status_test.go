package metrics

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"psrt/sched/psmsg"
)

// What lies between two looks is what has been counted between them.
func TestBetween(t *testing.T) {
	dir := t.TempDir()
	server, busy := crowded(3, 1), filepath.Join(dir, "server")
	server.stats.Lanes[0].Clocks[2], server.stats.Lanes[1].Clocks[2] = -1, -1
	r := NewRank()
	r.Name("server 10")
	r.Server(server)
	defer serve(t, "unix:"+busy, r).Close()
	now := Worker{Examples: 100, Steps: 7, IO: 1}
	w := NewRank()
	w.Name("worker 2")
	w.Worker(func() Worker { return now })
	working := serve(t, "127.0.0.1:0", w)
	defer working.Close()
	ends := []string{busy, working.Addr(), filepath.Join(dir, "nobody")}
	before := Look(context.Background(), ends)
	now = Worker{Examples: 300, Steps: 9, IO: 1.5}
	server.flows[1].InBytes, server.flows[0].InBytes, server.flows[2].InBytes = 10+900, 10+100, 3 // the last has begun anew
	server.flows = append(server.flows, psmsg.FlowStats{Worker: 1, Table: "u", InBytes: 997, Pulls: 3})
	server.stats.Lanes[1].BusySeconds = 1
	after := Look(context.Background(), ends)
	after.at = before.at.Add(2 * time.Second)
	s := Between(before, after)
	if len(s.Servers) != 1 || len(s.Workers) != 1 || s.Missing != 1 || s.Seconds != 2 {
		t.Fatalf("%+v", s)
	}
	got, work := s.Servers[0], s.Workers[0]
	if work.Rank != "worker 2" || work.ExamplesPerS != 100 || work.Steps != 9 || work.IO != 0.25 || work.CPUShare < 0 {
		t.Errorf("%+v", work)
	}
	if got.Rank != "server 10" || !got.Up || got.Rows != 7 || got.Credits != 5 || got.BusyShare != 0.25 || got.Meter != "a fake" || len(got.FanIn) != 3 {
		t.Errorf("%+v", got)
	}
	for i, want := range []FanInStatus{
		{Worker: "0", Clock: 99, Bytes: 110, BytesPerS: 50},
		{Worker: "1", Clock: 100, Bytes: 910 + 997, BytesPerS: 450 + 498.5, RequestsPerS: 1.5},
		{Worker: "2", Clock: -1, Bytes: 3, BytesPerS: 1.5, Hot: true},
	} {
		f := got.FanIn[i]
		f.Share = 0
		if f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	if share := got.FanIn[0].Share; share != 50/got.ReceivedPerS {
		t.Errorf("a share of %g of %g", share, got.ReceivedPerS)
	}
}

func TestRanksAreInOrder(t *testing.T) {
	s := Snapshot{values: map[series]float64{{rank: "worker 0"}: 1, {rank: "server 10"}: 1, {rank: "server 9"}: 1, {rank: "server 9", name: "x"}: 1}}
	if got := s.ranks(); len(got) != 3 || got[0] != "server 9" || got[1] != "server 10" || got[2] != "worker 0" {
		t.Errorf("%q", got)
	}
}
