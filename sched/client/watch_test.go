package client

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"psrt/sched/densemap"
	"psrt/sched/probe"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// What a server says of who sent how much is what was sent, by every meter.
func TestServerSeesWhoSends(t *testing.T) {
	const dense, pushes = 64 << 10, 12 // 256 KiB a push
	for _, transport := range transports {
		for mode, name := range map[server.Watch]string{server.WatchCounters: "counters", server.WatchAuto: "auto"} {
			t.Run(transport+"/"+name, func(t *testing.T) {
				w := newWorld(t, worldConfig{transport: transport, servers: 1, lanes: 2, workers: 3, staleness: server.Async,
					tables: []table.Spec{sumTable(1, 8)}, dense: dense, watch: mode})
				blocks, err := densemap.Cut([]densemap.Range{{Len: dense, Rule: "grad"}})
				must(t, err)
				clients := make([]*Client, 3)
				for i := range clients {
					clients[i] = w.open(i)
				}
				var call Call
				sent := make([]uint64, 3)
				for i, c := range clients {
					d, err := c.NewDense(dense, len(blocks))
					must(t, err)
					defer d.Close()
					for range pushes * (i + 1) {
						must(t, c.PushDense(d, 0, true, &call))
						must(t, c.Wait(&call))
						sent[i] += dense * 4
					}
				}
				st, err := w.servers[0].Stats()
				must(t, err)
				// near allows for headers: small chunks have many.
				near := func(what string, i int, got, headers uint64) {
					t.Helper()
					if got < sent[i] || got > sent[i]+sent[i]*headers/100 {
						t.Errorf("%s of worker %d: %d bytes, it pushed %d", what, i, got, sent[i])
					}
				}
				var flows [3]psmsg.FlowStats
				for _, f := range st.Flows {
					if f.Table != psmsg.DenseFlow {
						t.Errorf("nobody used table %q: %+v", f.Table, f)
						continue
					}
					flows[f.Worker] = f
					near("flow", f.Worker, f.InBytes, 1)
					if want := uint64(2 * pushes * (f.Worker + 1)); f.Pushes != want || f.OutBytes != want*psmsg.ReplyBytes {
						t.Errorf("worker %d: %d pushes over 2 lanes, %d bytes of answers, want %d", f.Worker, f.Pushes, f.OutBytes, want)
					}
				}
				if st.View == nil || len(st.View.Workers) != 3 {
					t.Fatalf("view %+v", st.View)
				}
				all := st.View.Workers[0].Bytes + st.View.Workers[1].Bytes + st.View.Workers[2].Bytes
				for i, v := range st.View.Workers {
					near("view", i, v.Bytes, 10)
					if share, want := float64(v.Bytes)/float64(all), float64(i+1)/6; math.Abs(share/want-1) > 0.02 {
						t.Errorf("worker %d has %.4f of all bytes, want %.4f", i, share, want)
					}
					if v.Sources == 0 {
						t.Errorf("worker %d sends from nowhere", i)
					}
				}
				if own := strings.Contains(st.View.Meter, "own counters"); own != (mode == server.WatchCounters || strings.HasPrefix(transport, "shm") || !kernelMeters(t)) {
					t.Errorf("watched by %q", st.View.Meter)
				} else if own && st.View.Workers[2].Bytes != flows[2].InBytes {
					t.Errorf("two counts of the same: %d and %d", st.View.Workers[2].Bytes, flows[2].InBytes)
				}
			})
		}
	}
}

// kernelMeters says whether the kernel counts for this user.
func kernelMeters(t *testing.T) bool {
	m, err := probe.OpenTCP(probe.TCPConfig{})
	if err != nil {
		if !errors.Is(err, probe.ErrMissing) || os.Geteuid() == 0 && !strings.Contains(err.Error(), "which is not here") {
			t.Fatal(err)
		}
		return false
	}
	must(t, m.Close())
	return true
}
