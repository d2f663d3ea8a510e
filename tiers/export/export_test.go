package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers/ckpt"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const slots = 8

// world is a model as a test sees it.
type world struct {
	specs  []table.Spec
	rows   map[uint32]map[uint64][]float32
	values []float32 // of dense vector 5, blocks of 3 and 2
	state  []float32
}

func makeWorld(rng *rand.Rand, n int) *world {
	w := &world{rows: map[uint32]map[uint64][]float32{}, specs: []table.Spec{
		{Name: "emb", ID: 1, Dim: 5, Init: table.Init{ZeroPrefix: 1}, Optimizer: table.Optimizer{Kind: table.AdaGrad}},
		{Name: "wide/odd name", ID: 7, Dim: 1, Optimizer: table.Optimizer{Kind: table.FTRL}},
		{Name: "EMB", ID: 9, Dim: 2, Optimizer: table.Optimizer{Kind: table.SGD}},
	}}
	for _, s := range w.specs {
		rows := map[uint64][]float32{}
		for i := range n {
			key := rng.Uint64()
			if i < 2 {
				key = []uint64{0, math.MaxUint64}[i]
			}
			row := make([]float32, s.RowFloats())
			for j := range row {
				row[j] = float32(rng.NormFloat64())
			}
			if i%10 == 3 {
				clear(row[:s.Dim])
			}
			rows[key] = row
		}
		w.rows[s.ID] = rows
	}
	for range 5 {
		w.values, w.state = append(w.values, rng.Float32()), append(w.state, rng.Float32())
	}
	return w
}

// save writes the model by so many servers.
func (w *world) save(t testing.TB, servers int, weightsOnly bool) *ckpt.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	in, err := ckpt.Begin(dir)
	check(t, err)
	defer in.Abort()
	out := ckpt.NewWriter(in.Path(), weightsOnly)
	var parts []ckpt.Part
	for server := range servers {
		var mine []ckpt.Range
		for s := server; s < slots; s += servers {
			mine = append(mine, ckpt.Range{First: int64(s), Last: int64(s + 1)})
		}
		for _, s := range w.specs {
			r, err := out.Rows(fmt.Sprintf("t%d-s%d", s.ID, server), s, mine)
			check(t, err)
			for key, row := range w.rows[s.ID] { // in any order
				if int(key%slots)%servers == server {
					check(t, r.Add(key, row))
				}
			}
			p, err := r.Close()
			check(t, err)
			parts = append(parts, p)
		}
	}
	d, err := out.Dense("dense", 5)
	check(t, err)
	check(t, errors.Join(d.Add(0, w.values[:3], w.state[:3]), d.Add(3, w.values[3:], w.state[3:])))
	p, err := d.Close()
	check(t, err)
	check(t, in.Commit(ckpt.Manifest{Meta: json.RawMessage(`{"model":"fm"}`), Digest: w.digest(), WeightsOnly: weightsOnly, Slots: slots,
		Tables: w.specs, Dense: []ckpt.DenseSpec{{Name: "mlp", ID: 5, Elements: 5}}, Parts: append(parts, p)}))
	m, err := ckpt.Open(dir)
	check(t, err)
	return m
}

func (w *world) digest() string {
	var sum table.Digest
	var h table.RowHasher
	for id, rows := range w.rows {
		for key, row := range rows {
			sum.Add(h.Hash(id, key, mem.Bytes(row)))
		}
	}
	for i, b := range [][2]int{{0, 3}, {3, 5}} {
		sum.Add(h.Hash(math.MaxUint32, uint64(i), mem.Bytes(slices.Concat(w.values[b[0]:b[1]], w.state[b[0]:b[1]]))))
	}
	return sum.String()
}

// files are an export's, by name.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		check(t, err)
		out[e.Name()] = string(b)
	}
	return out
}

func TestInference(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 3000)
	model := w.save(t, 2, false)
	for _, e := range []quant.Encoding{quant.F32, quant.F16, quant.I8} {
		dir := filepath.Join(t.TempDir(), "out")
		c, err := Write(context.Background(), model, dir, Options{Kind: Inference, Quantize: e, Serving: true, Workers: 2})
		check(t, err)
		if got := slices.Sorted(maps.Keys(files(t, dir))); !slices.Equal(got, []string{"EXPORT.json", "mlp.safetensors", "table-1.rows", "table-7.rows", "table-9.rows"}) {
			t.Errorf("files %v", got)
		}
		m, err := Open(dir)
		check(t, err)
		for i, s := range w.specs {
			layout := quant.Layout{Encoding: e, Dim: s.Dim}
			if e == quant.I8 {
				layout.Exact = s.Init.ZeroPrefix
			}
			buf, want, got := make([]byte, layout.Bytes()), make([]float32, s.Dim), make([]float32, s.Dim)
			for key, row := range w.rows[s.ID] {
				check(t, layout.Encode(buf, row))
				layout.Decode(want, buf)
				if _, err := m.Table(s.ID).Gather([]uint64{key}, got); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%v: key %d is %v, want %v, %v", e, key, got, want, err)
				}
			}
			if zeros := int64(300); c.Tables[i].Zero != zeros || c.Tables[i].Rows != 3000-zeros || m.Table(s.ID).Len() != 3000-zeros {
				t.Errorf("%v: table %+v, want %d rows of zeros left out", e, c.Tables[i], zeros)
			}
		}
		var meta bytes.Buffer
		check(t, json.Compact(&meta, m.Source.Meta))
		if !slices.Equal(m.DenseVector(5), w.values) || m.Source.Digest != w.digest() || meta.String() != `{"model":"fm"}` {
			t.Errorf("dense %v, source %+v", m.DenseVector(5), m.Source)
		}
		check(t, m.Close())
		kind, _, err := Verify(context.Background(), dir)
		if err != nil || kind != Inference {
			t.Errorf("verification of %s: %v", kind, err)
		}
	}
}

// TestSameModelSameFiles: servers, the order of rows and memory change nothing.
func TestSameModelSameFiles(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 40_000) // a run of the smallest memory takes 17 to 29 thousand
	byOne, byMany := w.save(t, 1, false), w.save(t, 3, false)
	for _, o := range []Options{{Kind: Inference}, {Kind: Inference, Quantize: quant.I8}, {Kind: Text, State: true}, {Kind: Safetensors, State: true}} {
		one, other := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")
		_, err := Write(context.Background(), byOne, one, o)
		check(t, err)
		o.Memory, o.Workers = 1, 3
		_, err = Write(context.Background(), byMany, other, o)
		check(t, err)
		a, b := files(t, one), files(t, other)
		if !maps.Equal(a, b) || len(a) != 5 {
			t.Errorf("%+v: exports of one model differ", o)
		}
	}
}

// TestTextThereAndBack: with state every bit of the model comes back.
func TestTextThereAndBack(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 2000)
	for i, bits := range []uint32{0x7fc00001, 0xff800000, 1, 1 << 31} {
		w.rows[1][uint64(i)] = slices.Repeat([]float32{math.Float32frombits(bits)}, 10)
	}
	dir, out := filepath.Join(t.TempDir(), "text"), filepath.Join(t.TempDir(), "model")
	_, err := Write(context.Background(), w.save(t, 2, false), dir, Options{Kind: Text, State: true})
	check(t, err)
	got, err := Import(context.Background(), []string{dir}, out, ImportOptions{Memory: 1})
	check(t, err)
	if got.Digest != w.digest() || got.Edited || got.Partial || got.WeightsOnly || got.Tables != 3 || got.Dense != 1 {
		t.Errorf("imported %+v, want digest %s", got, w.digest())
	}
	m, err := ckpt.Open(out)
	check(t, err)
	check(t, m.Verify(context.Background(), 1))
	if m.Digest != w.digest() || m.Slots != slots || m.WeightsOnly {
		t.Errorf("the model says %+v", m.Manifest)
	}
	again := filepath.Join(t.TempDir(), "again")
	_, err = Write(context.Background(), m, again, Options{Kind: Text, State: true})
	check(t, err)
	if !maps.Equal(files(t, dir), files(t, again)) {
		t.Error("text of the imported model is another")
	}
}

// TestWithoutDigest: where the model has none there is nothing to compare.
func TestWithoutDigest(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 50)
	m := w.save(t, 1, false)
	m.Digest = ""
	dir := filepath.Join(t.TempDir(), "text")
	_, err := Write(context.Background(), m, dir, Options{Kind: Text, State: true})
	check(t, err)
	got, err := Import(context.Background(), []string{dir}, filepath.Join(t.TempDir(), "model"), ImportOptions{})
	if err != nil || got.Digest != w.digest() || got.Exported != "" {
		t.Errorf("%+v, %v, want digest %s", got, err, w.digest())
	}
	m.Digest = strings.Repeat("00", 32) // of another model
	_, err = Write(context.Background(), m, dir, Options{Kind: Text, State: true})
	check(t, err)
	if _, err := Import(context.Background(), []string{dir}, filepath.Join(t.TempDir(), "model"), ImportOptions{}); err == nil || !strings.Contains(err.Error(), "the one that was exported had 0000") {
		t.Errorf("a model with another digest: %v", err)
	}
}

func TestTextByHand(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 50)
	dir, out := filepath.Join(t.TempDir(), "text"), filepath.Join(t.TempDir(), "model")
	_, err := Write(context.Background(), w.save(t, 2, false), dir, Options{Kind: Text})
	check(t, err)
	got, err := Import(context.Background(), []string{dir}, out, ImportOptions{})
	check(t, err)
	if !got.WeightsOnly || got.Edited {
		t.Errorf("without state: %+v", got)
	}
	path := filepath.Join(dir, "table-9.tsv")
	b, err := os.ReadFile(path)
	check(t, err)
	cut := bytes.LastIndex(b, []byte("#end"))
	edit := func(more string) {
		t.Helper()
		check(t, os.WriteFile(path, append(append(bytes.Clone(b[:cut]), more...), "#end\n"...), 0o666))
	}
	edit("5\t1\t2\n")
	got, err = Import(context.Background(), []string{path}, out, ImportOptions{})
	check(t, err)
	if !got.Edited || !got.Partial || got.Rows != 51 || got.Tables != 1 {
		t.Errorf("one table, edited: %+v", got)
	}
	m, err := ckpt.Open(out)
	check(t, err)
	found := false
	check(t, m.Rows(context.Background(), 9, 1, nil, func(keys []uint64, rows []float32) error {
		if i := slices.Index(keys, 5); i >= 0 {
			found = slices.Equal(rows[2*i:2*i+2], []float32{1, 2})
		}
		return nil
	}))
	if !found {
		t.Error("the row that was added is not there")
	}
	edit("5\t1\t2\n5\t1\t2\n")
	if _, err := Import(context.Background(), []string{path}, out, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "key 5 has two rows") {
		t.Errorf("a key twice: %v", err)
	}
	if m, err := ckpt.Open(out); err != nil || m.Spec(9) == nil {
		t.Errorf("a failed import left %v", err)
	}
	for name, c := range map[string]struct {
		paths []string
		says  string
	}{
		"nothing":   {nil, "no text to import"},
		"twice":     {[]string{path, path}, "both have table 9"},
		"no export": {[]string{t.TempDir()}, "has no .tsv file"},
		"a model":   {[]string{filepath.Join(out, ckpt.ManifestName)}, "did not export it as text"},
		"no file":   {[]string{path + "x"}, "no such file"},
	} {
		if _, err := Import(context.Background(), c.paths, out, ImportOptions{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	_, err = Write(context.Background(), w.save(t, 1, false), other, Options{Kind: Text, State: true})
	check(t, err)
	if _, err := Import(context.Background(), []string{path, filepath.Join(other, "mlp.tsv")}, out, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "do not belong together") {
		t.Errorf("files with and without state: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	w := makeWorld(seedtest.Rand(t), 20)
	m, bare := w.save(t, 1, false), w.save(t, 1, true)
	w.rows[1][77] = slices.Repeat([]float32{float32(math.NaN())}, 10)
	nan := w.save(t, 1, false)
	dir := filepath.Join(t.TempDir(), "out")
	for says, c := range map[string]struct {
		m *ckpt.Model
		o Options
	}{
		"want inference, text or": {m, Options{Kind: "onnx"}}, "every bit": {m, Options{Kind: Text, Quantize: quant.F16}},
		"no optimizer state; export as": {m, Options{Kind: Inference, State: true}}, "export it without": {bare, Options{Kind: Text, State: true}},
		"table emb, key 77":       {nan, Options{Kind: Inference, Quantize: quant.I8}},
		"which is no half float":  {nan, Options{Kind: Safetensors, Quantize: quant.F16}},
		"keep the model in fp32":  {nan, Options{Kind: Safetensors, Quantize: quant.I8}},
		"choose a directory that": {m, Options{Kind: Text}}, // into the model's own
	} {
		to := dir
		if strings.HasPrefix(says, "choose") {
			to = m.Dir()
		}
		if _, err := Write(context.Background(), c.m, to, c.o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error with %q", c.o, err, says)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was exported")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Write(ctx, m, dir, Options{Kind: Text}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled export: %v", err)
	}
	for _, kind := range []string{Text, Safetensors} {
		_, err := Write(context.Background(), m, dir, Options{Kind: kind})
		check(t, err)
		var wrong *KindError
		if _, err := Open(dir); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "--format inference") {
			t.Errorf("Open of %s: %v", kind, err)
		}
		_, _, err = Verify(context.Background(), dir)
		check(t, err)
	}
}
