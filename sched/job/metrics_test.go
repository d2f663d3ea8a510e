package job

import (
	"context"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"psrt/sched/coord/local"
	"psrt/sched/metrics"
	"psrt/sched/train"
)

// series are a rank's values by name and one label.
func series(t *testing.T, r *metrics.Rank, label string) map[string]map[string]float64 {
	t.Helper()
	all, err := r.Gatherer().Gather()
	must(t, err)
	got := map[string]map[string]float64{}
	for _, f := range all {
		sums := map[string]float64{}
		for _, m := range f.Metric {
			key := ""
			for _, l := range m.Label {
				if l.GetName() == label {
					key = l.GetValue()
				}
			}
			sums[key] += value(m)
		}
		got[f.GetName()] = sums
	}
	return got
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return m.Gauge.GetValue()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What ranks show when the job is over is what the job's result says.
func TestMetricsAgreeWithResult(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			j := sampleJob(t, "deepfm")
			j.Servers, j.Workers, j.Watch = 2, 2, train.WatchCounters
			c := local.New()
			defer c.Close()
			must(t, Publish(ctx, c, j))
			ranks, results := make([]*metrics.Rank, 4), make([]*train.Result, 4)
			var wg sync.WaitGroup
			for i := range ranks {
				ranks[i] = metrics.NewRank()
				wg.Go(func() {
					var err error
					results[i], err = RunRank(ctx, RankConfig{Rank: i, World: 4, Coord: c, Token: []byte("a token of this test alone"), Transport: transport,
						Listen: "127.0.0.1:0", Node: -1, Metrics: ranks[i]})
					if err != nil {
						t.Errorf("rank %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			res := results[2]
			for s := range 2 {
				st := res.ServerUse[s]
				want := map[string]map[string]float64{"psrt_server_received_bytes_total": {}, "psrt_server_sent_bytes_total": {}, "psrt_server_requests_total": {}}
				for _, f := range st.Flows {
					want["psrt_server_received_bytes_total"][f.Table] += float64(f.InBytes)
					want["psrt_server_sent_bytes_total"][f.Table] += float64(f.OutBytes)
					want["psrt_server_requests_total"][f.Table] += float64(f.Pulls + f.Pushes)
				}
				got := series(t, ranks[s], "table")
				for name, tables := range want {
					if len(tables) == 0 || len(got[name]) != len(tables) {
						t.Errorf("server %d, %s: %v, the result says %v", s, name, got[name], tables)
					}
					for table, n := range tables {
						if n == 0 || got[name][table] != n {
							t.Errorf("server %d, %s of %s: %g, the result says %g", s, name, table, got[name][table], n)
						}
					}
				}
				kinds := series(t, ranks[s], "kind")["psrt_server_request_seconds"]
				if pushes := kinds["push"] + kinds["push-dense"]; pushes != float64(st.Pushes) || pushes == 0 {
					t.Errorf("server %d: %g pushes took their time, the result says %d", s, pushes, st.Pushes)
				}
				if st.View == nil || len(st.View.Workers) != 2 || len(st.Lanes) != 1 || st.Lanes[0].Sessions != 2 {
					t.Errorf("server %d: view %+v, lanes %+v", s, st.View, st.Lanes)
				}
				// Only lanes know the rest, and they have ended.
				if up := got["psrt_server_up"][""]; up != 0 {
					t.Errorf("server %d is over and up: %g", s, up)
				}
			}
			examples, calls := 0.0, 0.0
			for w := range 2 {
				got := series(t, ranks[2+w], "kind")
				examples += got["psrt_worker_examples_total"][""]
				calls += got["psrt_worker_call_seconds"]["push"]
				if keys := series(t, ranks[2+w], "what")["psrt_worker_copied_bytes_total"]["keys"]; transport == "tcp" && keys > float64(res.Ranks[2+w].Copied.KeysOut) {
					t.Errorf("worker %d: %g bytes of keys copied, the result says %d", w, keys, res.Ranks[2+w].Copied.KeysOut)
				}
			}
			if steps := calls / 2; examples != float64(res.Examples) || steps != 12 { // 3000 rows, 500 a step, twice
				t.Errorf("%g examples in %g steps, the result says %d in 12", examples, steps, res.Examples)
			}
		})
	}
}
