package ckpt

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"psrt/tiers/table"
)

// loadEnv is the megabytes of BenchmarkLoad's base.
const loadEnv = "PSRT_LOAD_MB"

// loadHistory is a history of 4 lanes with a base of some rows and a delta of a
// tenth of them.
func loadHistory(t testing.TB, dir string, rows int) table.Spec {
	spec := table.Spec{Name: "e", ID: 1, Dim: 32, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
	h, err := OpenHistory(background, dir, HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	row := make([]float32, spec.RowFloats())
	for _, delta := range []bool{false, true} {
		n, err := h.Begin(t.Context(), NextOptions{Delta: delta})
		if err != nil {
			t.Fatal(err)
		}
		var parts []Part
		for lane := range 4 {
			r, err := n.Writer(background).Rows("lane"+strconv.Itoa(lane), spec, []Range{{int64(lane), int64(lane + 1)}})
			if err != nil {
				t.Fatal(err)
			}
			for i := lane; i < rows; i += 4 {
				if row[0] = float32(i); delta && i/4%10 != 0 {
					continue
				}
				if err := r.Add(uint64(i)*0x9e3779b97f4a7c15, row); err != nil {
					t.Fatal(err)
				}
			}
			r.Holds(int64(rows / 4))
			p, err := r.Close()
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, p)
		}
		if _, err := n.Commit(background, Manifest{Slots: 4, Tables: []table.Spec{spec}, Parts: parts}); err != nil {
			t.Fatal(err)
		}
	}
	return spec
}

// load reads all rows once and looks at each.
func load(t testing.TB, m *Model, workers int) (rows int64) {
	var n, sum atomic.Int64
	if err := m.Rows(background, 1, workers, nil, func(keys []uint64, rows []float32) error {
		s := int64(0)
		for i := 0; i < len(rows); i += len(rows) / len(keys) {
			s += int64(rows[i])
		}
		n.Add(int64(len(keys)))
		sum.Add(s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n.Load()
}

// TestEstimate holds what is predicted to what a chain consists of.
func TestEstimate(t *testing.T) {
	dir := t.TempDir()
	loadHistory(t, dir, 4000)
	m, err := Open(dir)
	check(t, err)
	bytes := m.Chain()[0].Bytes() + m.Chain()[1].Bytes()
	e := m.EstimateLoad(1e6, 2, nil)
	if want := m.opening + time.Duration(float64(bytes)/1e6*1e9); e.Bytes != bytes || e.Parts != 8 || e.Passes != 1 || e.Time != want {
		t.Errorf("%+v, want %d bytes in 8 parts, %v", e, bytes, want)
	}
	if e := m.EstimateLoad(1e6, 1, []Range{{2, 3}}); e.Parts != 2 || e.Bytes >= bytes/2 {
		t.Errorf("of one slot: %+v", e)
	}
	m.keyBudget = 2 * 1000
	if e := m.EstimateLoad(1e6, 2, nil); e.Passes != 3 || e.Bytes != 3*bytes { // 100 ids x 22 bytes, 1000 for each worker
		t.Errorf("with little memory: %+v", e)
	}
	if rows, exact := m.RowCount(1); rows != 4000 || !exact || load(t, m, 2) != 4000 {
		t.Errorf("%d rows (exact %v)", rows, exact)
	}
	for _, cold := range []bool{false, true} {
		if rate, err := m.MeasureRead(background, 2, bytes/2, cold); err != nil || rate < 1 {
			t.Errorf("%g bytes a second: %v", rate, err)
		}
	}
}

// BenchmarkLoad loads a chain, and beside it, interleaved, only reads its
// bytes: cold both, through the same reader.
func BenchmarkLoad(b *testing.B) {
	mb := 64
	if s := os.Getenv(loadEnv); s != "" {
		mb, _ = strconv.Atoi(s)
	}
	dir := b.TempDir()
	loadHistory(b, dir, mb<<20/264)
	var predicted, measured time.Duration
	var rate float64
	for b.Loop() {
		m, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		if rate, err = m.MeasureRead(background, 2, 1<<62, true); err != nil {
			b.Fatal(err)
		}
		if err := m.each(background, 1, everyPart, func(_ context.Context, r *partReader) error { r.f.Forget(); return nil }); err != nil {
			b.Fatal(err)
		}
		predicted += m.EstimateLoad(rate, 2, nil).Time
		begun := time.Now()
		if m, err = Open(dir); err != nil {
			b.Fatal(err)
		}
		load(b, m, 2)
		measured += time.Since(begun)
	}
	b.ReportMetric(rate/1e6, "MB/s-raw")
	b.ReportMetric(measured.Seconds()/predicted.Seconds(), "measured/predicted")
}
