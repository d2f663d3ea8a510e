package export

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/tiers/ckpt"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew (only for a new format)")

// TestGolden: exports of every format are read for ever.
func TestGolden(t *testing.T) {
	w := makeWorld(rand.New(rand.NewPCG(2026, 11)), 40)
	for f := 1; f <= format; f++ {
		for name, o := range map[string]Options{
			"inference": {Kind: Inference, Serving: true}, "inference-int8": {Kind: Inference, Quantize: quant.I8},
			"inference-content": {Kind: Inference, Serving: true}, // its tables have digests
			"text":              {Kind: Text, State: true}, "safetensors": {Kind: Safetensors, State: true},
		} {
			dir := filepath.Join("testdata", fmt.Sprintf("format%d-%s", f, name))
			if *rewrite && f == format && name == "inference-content" {
				_, err := Write(context.Background(), w.save(t, 1, false), dir, o)
				check(t, err)
			}
			kind, c, err := Verify(context.Background(), dir)
			if err != nil || kind != o.Kind || c.Source.Digest != w.digest() {
				t.Errorf("%s: %s, %+v, %v", dir, kind, c, err)
				continue
			}
			switch name {
			case "inference", "inference-content":
				m, err := Open(dir)
				check(t, err)
				for key, row := range w.rows[1] {
					got := make([]float32, 5)
					if _, err := m.Table(1).Gather([]uint64{key}, got); err != nil || !slices.Equal(got, row[:5]) {
						t.Errorf("%s: key %d is %v, want %v, %v", dir, key, got, row[:5], err)
					}
				}
				if !slices.Equal(m.DenseVector(5), w.values) {
					t.Errorf("%s: dense %v", dir, m.DenseVector(5))
				}
				check(t, m.Close())
			case "text":
				got, err := Import(context.Background(), []string{dir}, filepath.Join(t.TempDir(), "model"), ImportOptions{})
				if err != nil || got.Digest != w.digest() || got.Edited || got.Partial {
					t.Errorf("%s: %+v, %v", dir, got, err)
				}
			}
		}
	}
}

// TestLaterFormat is refused with what to do.
func TestLaterFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	in, err := outdir.Begin(dir)
	check(t, err)
	check(t, in.Commit(Inference, format+1, []byte("{}")))
	want := fmt.Sprintf("format %d, this psrt reads 1 to %d; use a newer psrt", format+1, format)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if _, _, err := Verify(context.Background(), dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestFileNames(t *testing.T) {
	m := &ckpt.Manifest{Dense: []ckpt.DenseSpec{{Name: "dense", ID: 1}}}
	for id, name := range []string{"emb", "Item.v2_x", "a/b", ".hidden", "dense", "twice", "TWICE", "", "table-3", "ü"} {
		m.Tables = append(m.Tables, table.Spec{Name: name, ID: uint32(id)})
	}
	got := fileNames(m)
	if want := []string{"emb", "Item.v2_x", "table-2", "table-3", "table-4", "table-5", "table-6", "table-7", "table-8", "table-9"}; !slices.Equal(got.tables, want) {
		t.Errorf("%q, want %q", got.tables, want)
	}
	if got.dense[0] != "dense-1" {
		t.Errorf("dense is %q", got.dense[0])
	}
}

// FuzzContent gives the reader manifests that are whole and say anything.
func FuzzContent(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "format1-inference", "table-1.rows"))
	check(f, err)
	f.Add([]byte(`{"tables":[{"spec":{"name":"e","id":1,"dim":5},"file":"t.rows","encoding":"fp32","rows":36}]}`), b)
	f.Add([]byte(`{"tables":[{"spec":{"name":"e","id":1,"dim":2},"file":"t.rows","encoding":"int8","exact":7}]}`), b[:100])
	f.Add([]byte(`{"dense":[{"name":"d","id":1,"elements":-1,"file":"t.rows"}]}`), []byte("{}"))
	f.Fuzz(func(t *testing.T, content, file []byte) {
		dir := filepath.Join(t.TempDir(), "out")
		in, err := outdir.Begin(dir)
		check(t, err)
		out, err := in.Create("t.rows")
		check(t, err)
		_, _ = out.Write(file)
		_, err = out.Close()
		check(t, err)
		if in.Commit(Inference, format, content) != nil {
			return // no JSON
		}
		m, err := Open(dir)
		if err != nil {
			return
		}
		for _, tab := range m.Tables {
			_, _ = m.Table(tab.Spec.ID).Gather([]uint64{0, 1}, make([]float32, 2*tab.Spec.Dim))
		}
		check(t, m.Close())
	})
}
