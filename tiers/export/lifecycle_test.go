package export

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/dram"
	"psrt/tiers/export/inference"
	"psrt/tiers/table"
)

// lived is a model with three rows of a table with a lifecycle: 1 has a vector, 2
// is served and has none yet, 3 is not worth serving. history is what happened to
// them since they were last touched.
func lived(t *testing.T, history string) *ckpt.Model {
	t.Helper()
	rules := table.DefaultLifecycle()
	spec := table.Spec{Name: "life", ID: 4, Dim: 3, Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &rules}
	rows, err := dram.New(spec, 1, dram.Config{Node: -1})
	check(t, err)
	defer rows.Close()
	keys, ids := []uint64{1, 2, 3}, make([]uint32, 3)
	_, err = rows.Lookup(keys, ids, true)
	check(t, err)
	refused := rows.Apply(ids, []float32{ // slot, show, click, gradients
		8, 100, 3, 0.5, 0.5, 0.5,
		8, 5, 2, 0.5, 0.5, 0.5,
		8, 1, 0, 0.5, 0.5, 0.5,
	})
	if refused != 0 {
		t.Fatalf("%d pushes refused", refused)
	}
	dir := filepath.Join(t.TempDir(), "model")
	ctx := context.Background()
	h, err := ckpt.OpenHistory(ctx, dir, ckpt.HistoryOptions{})
	check(t, err)
	defer h.Close()
	in, err := h.Begin(t.Context(), ckpt.NextOptions{})
	check(t, err)
	defer in.Abort()
	writer := in.Writer(ctx)
	w, err := writer.Rows("t4", spec, []ckpt.Range{{First: 0, Last: slots}})
	check(t, err)
	rows.Range(func(key uint64, row []float32) bool { check(t, w.Add(key, row)); return true })
	p, err := w.Close()
	check(t, err)
	_, err = in.Commit(ctx, ckpt.Manifest{Digest: strings.Repeat("5a", 32), Slots: slots, Tables: []table.Spec{spec}, Parts: []ckpt.Part{p},
		Lifecycle: map[uint32]string{4: accessor.Memo{History: history, Graves: []uint64{99}}.String()}})
	check(t, err)
	m, err := ckpt.Open(dir)
	check(t, err)
	return m
}

// weights are what an export gives for keys 1, 2 and 3: how many weights of each
// are not zero, or - where there is no row.
func weights(t *testing.T, tab *inference.Table) string {
	t.Helper()
	out := ""
	for key := range uint64(3) {
		w := make([]float32, 3)
		found, err := tab.Gather([]uint64{key + 1}, w)
		check(t, err)
		if found == 0 {
			out += "-"
			continue
		}
		n := 0
		for _, x := range w {
			if x != 0 {
				n++
			}
		}
		out += fmt.Sprint(n)
	}
	return out
}

func TestLifecycleRules(t *testing.T) {
	for _, c := range []struct {
		what, history string
		serving       bool
		want          string
		unserved      int64
	}{
		{"as they are", "", true, "31-", 1},
		{"all", "", false, "311", 0},
		{"after a shrink, in which 3 dies", "s", true, "31-", 1},
		{"all that a pull gives after a shrink", "s", false, "310", 0},
		{"after as many days as are kept", strings.Repeat("d", 16), true, "31-", 1},
		{"a day later", strings.Repeat("d", 17), true, "---", 3},
		{"2 falls below base_threshold after 22 shrinks of 2 %", strings.Repeat("s", 22), true, "3--", 2},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		content, err := Write(context.Background(), lived(t, c.history), dir, Options{Kind: Inference, Serving: c.serving})
		check(t, err)
		m, err := Open(dir)
		check(t, err)
		if got := weights(t, m.Table(4)); got != c.want || content.Tables[0].Unserved != c.unserved {
			t.Errorf("%s: %s with %d not served, want %s with %d", c.what, got, content.Tables[0].Unserved, c.want, c.unserved)
		}
		check(t, m.Close())
	}
}

// TestLifecycleThereAndBack: text with state brings counters and history along.
func TestLifecycleThereAndBack(t *testing.T) {
	before := lived(t, "ds")
	dir, out := filepath.Join(t.TempDir(), "text"), filepath.Join(t.TempDir(), "model")
	_, err := Write(context.Background(), before, dir, Options{Kind: Text, State: true})
	check(t, err)
	got, err := Import(context.Background(), []string{dir}, out, ImportOptions{})
	check(t, err)
	after, err := ckpt.Open(out)
	check(t, err)
	if got.Digest != before.Digest || after.Digest != before.Digest || after.Lifecycle[4] != before.Lifecycle[4] || !after.Tables[0].Equal(before.Tables[0]) {
		t.Errorf("imported %+v, %+v", got, after.Manifest)
	}
	all := func(m *ckpt.Model) (out []string) {
		check(t, m.Rows(context.Background(), 4, 1, nil, func(keys []uint64, rows []float32) error {
			width := len(rows) / len(keys)
			for i, k := range keys {
				out = append(out, fmt.Sprintf("%d %x", k, rows[i*width:(i+1)*width]))
			}
			return nil
		}))
		slices.Sort(out)
		return out
	}
	if a, b := all(before), all(after); !slices.Equal(a, b) || len(a) != 3 {
		t.Errorf("rows %v came back as %v", a, b)
	}
}
