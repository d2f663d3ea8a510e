package kv

import (
	"encoding/json"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/server"
)

// A client that keeps hot rows sees none that is older than was said, and some that are
// so old; all that it pushes counts. One that ends no steps keeps nothing.
func TestHotRows(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		const vocabulary, steps, dim, staleness = 60, 200, 3, 3
		rng := seedtest.Rand(t)
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 2, workers: 2, staleness: server.Async})
		writer := w.table(w.open(1, counting("t", dim)), "t")
		cfg := w.config(0)
		cfg.HotRows, cfg.HotStaleness = 12, staleness
		reader := w.openAs(cfg)
		tab := w.table(reader, "t")
		all := make([]uint64, vocabulary)
		ones := make([]float32, vocabulary*dim)
		for i := range all {
			all[i] = uint64(i)
		}
		for i := range ones {
			ones[i] = 1
		}
		var at [vocabulary][]int // by key: what had been pushed when the reader pulled in a step
		var now [vocabulary]int
		most := 0
		for step := range 2 * steps {
			must(t, writer.Push(all, ones, Options{}))
			keys := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			for _, k := range rng.Perm(vocabulary - 10)[:rng.IntN(20)] {
				keys = append(keys, uint64(10+k))
			}
			for k := range all {
				now[k]++
				at[k] = append(at[k], now[k])
			}
			values := make([]float32, len(keys)*dim)
			number, err := tab.PullTicket(keys, values, Options{})
			must(t, err)
			for i, k := range keys {
				seen, back := -values[i*dim], 0
				for float32(at[k][step-back]) > seen && back < step {
					back++
				}
				if float32(at[k][step-back]) != seen || back > staleness || step < steps && back > 0 {
					t.Fatalf("step %d: key %d is %v, %d steps old; it was %v", step, k, seen, back, at[k])
				}
				most = max(most, back)
			}
			if step%2 == 0 {
				must(t, tab.PushTicket(number, len(keys), ones[:len(keys)*dim], Options{}))
			} else {
				must(t, tab.Push(keys, ones[:len(keys)*dim], Options{}))
			}
			for _, k := range keys {
				now[k]++
			}
			if step >= steps {
				must(t, reader.Tick(0))
			}
		}
		if most != staleness {
			t.Errorf("rows were %d steps old at most, %d was allowed", most, staleness)
		}
		text, err := reader.StatsJSON(time.Minute)
		must(t, err)
		var r Report
		must(t, json.Unmarshal(text, &r))
		if r.Hot == nil || r.Hot.Kept == 0 || r.Hot.Pulled == 0 {
			t.Errorf("%s", text)
		}
		values := make([]float32, vocabulary*dim)
		must(t, tab.Pull(all, values, Options{AnyClock: true}))
		for i := range all {
			if got := -values[i*dim]; got != float32(now[i]) {
				t.Errorf("key %d: %v pushes count, want %d", i, got, now[i])
			}
		}
	})
}

// Where values may not be old, and where nobody says which, it is refused.
func TestHotRowsAreRefused(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1})
	cfg := w.config(0)
	cfg.HotRows = 10
	_, err := Open(t.Context(), cfg)
	wantCode(t, err, BadConfig, "bsp")
	for text, words := range map[string]string{
		"hot_rows: -1":                   "hot_rows -1",
		"hot_staleness: 3":               "without hot_rows",
		"hot_rows: 5\nhot_staleness: -1": "hot_staleness -1",
		"hot_rows: 2000000":              "must be 0 (none) to",
	} {
		_, err := ParseConfig([]byte("servers: [a:1]\ntoken_file: t\n" + text))
		wantCode(t, err, BadConfig, words)
	}
}
