package text

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers/export/outdir"
	"psrt/tiers/table"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var spec = table.Spec{Name: "emb", ID: 3, Dim: 2, Optimizer: table.Optimizer{Kind: table.AdaGrad}}

type row struct {
	key uint64
	v   []float32
}

func write(t testing.TB, h Header, rows []row) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	check(t, err)
	for _, r := range rows {
		if h.Table != nil {
			check(t, w.Row(r.key, r.v))
		} else {
			check(t, w.Block(int64(r.key), r.v[:2], r.v[2:]))
		}
	}
	check(t, w.Close())
	return b.Bytes()
}

func read(b []byte) (rows []row, edited bool, err error) {
	r, err := NewReader(bytes.NewReader(b), "f.tsv")
	if err != nil {
		return nil, false, err
	}
	if r.Table != nil {
		err = r.Rows(func(key uint64, v []float32) error {
			rows = append(rows, row{key, slices.Clone(v)})
			return nil
		})
	} else {
		err = r.Blocks(func(first int64, values, state []float32) error {
			rows = append(rows, row{uint64(first), append(slices.Clone(values), state...)})
			return nil
		})
	}
	return rows, r.Edited, err
}

func same(a, b []row) bool {
	return slices.EqualFunc(a, b, func(a, b row) bool {
		return a.key == b.key && bytes.Equal(mem.Bytes(a.v), mem.Bytes(b.v))
	})
}

// TestEveryBitComesBack sends floats of all kinds there and back.
func TestEveryBitComesBack(t *testing.T) {
	rng := seedtest.Rand(t)
	special := []uint32{0, 1 << 31, 1, 0x807fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0x00800000, 0x7f7fffff, 0x3dcccccd}
	for _, state := range []bool{false, true} {
		for _, h := range []Header{{Table: &spec, State: state}, {Dense: &Dense{Name: "d", ID: 1, Elements: 1e9}, State: state}} {
			n := 2
			if state {
				n = 4
			}
			var rows []row
			for i := range 20_000 {
				r := row{uint64(i) * 7, make([]float32, n)}
				if h.Table != nil {
					r.key = rng.Uint64()
				}
				for j := range r.v {
					bits := rng.Uint32()
					if i < len(special) {
						bits = special[(i+j)%len(special)]
					}
					r.v[j] = math.Float32frombits(bits)
				}
				rows = append(rows, r)
			}
			got, edited, err := read(write(t, h, rows))
			if err != nil || edited || !same(got, rows) {
				t.Errorf("state %v: rows come back the same: %v, edited %v, error %v", state, same(got, rows), edited, err)
			}
		}
	}
}

func TestEditedByHand(t *testing.T) {
	b := string(write(t, Header{Table: &spec}, []row{{1, []float32{0.5, -2}}, {2, []float32{1e-5, 3}}}))
	if !strings.Contains(b, "\n1\t0.5\t-2\n2\t1e-05\t3\n#end 2 ") {
		t.Fatalf("a file that people cannot read:\n%s", b)
	}
	lines := strings.Split(b, "\n")
	lines[len(lines)-2] = "#end"
	lines[3] = "# half of it\r\n\n7\t0.25\tx40490fdb\r"
	got, edited, err := read([]byte(strings.Join(lines, "\n")))
	if err != nil || !edited || !same(got, []row{{7, []float32{0.25, math.Pi}}, {2, []float32{1e-5, 3}}}) {
		t.Errorf("after an edit: %v, %v, %v", got, edited, err)
	}
	for name, c := range map[string]struct{ from, to, says string }{
		"another number": {"0.5", "0.6", "shorten that line to #end"},
		"a lost row":     {"1\t0.5\t-2\n", "", "1 rows with"},
		"cut short":      {"#end", "#e", "without the line #end"},
		"half a line":    {"\t3\n", "\n", "f.tsv:5 is damaged: a row of 1 numbers behind the key, want 2"},
		"words":          {"0.5", "half", `f.tsv:4 is damaged: column 2: "half" is not a float32`},
		"underscores":    {"0.5", "0_0.5", "not a float32"},
		"Go's literals":  {"0.5", "0x1p-1", "not a float32"},
		"hexadecimal":    {"0.5", "x12", "8 hexadecimal digits"},
		"too large":      {"0.5", "1e39", "not a float32"},
		"endless":        {"0.5", strings.Repeat("1", 65), "number of 65 characters"},
		"key":            {"\n1\t", "\n-1\t", "not a key"},
		"key too large":  {"\n1\t", "\n18446744073709551616\t", "not a key"},
		"version":        {"text 1", "text 2", "use a newer psrt"},
		"not ours":       {"#psrt-text 1", "key,w0", "did not export it"},
		"description":    {`"dim":2`, `"dim":"2"`, "header"},
		"no table":       {`"table"`, `"tables"`, "neither a table nor"},
		"dim":            {`"dim":2`, `"dim":0`, "dim 0"},
		"end with words": {"#end 2", "#end two 2 3", "the last line is"},
	} {
		bad := strings.Replace(b, c.from, c.to, 1)
		if bad == b {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, _, err := read([]byte(bad)); !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.says)
		}
	}
	if _, _, err := read([]byte(b + "8\t1\t1\n")); err == nil || !strings.Contains(err.Error(), "something follows") {
		t.Errorf("rows behind the end: %v", err)
	}
}

// TestDamage flips a bit of every byte.
func TestDamage(t *testing.T) {
	rng := seedtest.Rand(t)
	good := write(t, Header{Table: &spec, State: true}, []row{{1, []float32{1, 2, 3, 4}}, {99, []float32{-1, 0.1, 1e30, 0}}})
	want, _, err := read(good)
	check(t, err)
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << rng.IntN(8)
		if got, _, err := read(bad); err == nil && !same(got, want) {
			t.Errorf("byte %d changed from %q to %q unnoticed", at, good[at], bad[at])
		}
	}
	for n := range good {
		if _, _, err := read(good[:n]); !errors.Is(err, outdir.ErrCorrupt) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestMisuse(t *testing.T) {
	if _, err := NewWriter(&bytes.Buffer{}, Header{}); err == nil {
		t.Error("a header of nothing is accepted")
	}
	w, err := NewWriter(&bytes.Buffer{}, Header{Table: &spec})
	check(t, err)
	if w.Row(1, make([]float32, 4)) == nil || w.Block(0, []float32{1}, nil) == nil {
		t.Error("a row with state, or a block, is accepted where there is none")
	}
	w, err = NewWriter(&bytes.Buffer{}, Header{Dense: &Dense{Elements: 3}})
	check(t, err)
	if w.Row(1, make([]float32, 2)) == nil || w.Block(2, []float32{1, 2}, nil) == nil || w.Block(-1, []float32{1}, nil) == nil {
		t.Error("a row, or a block beyond the vector, is accepted")
	}
	full := errors.New("full")
	if _, err := NewWriter(failing{full}, Header{Table: &spec}); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	f.Add(write(f, Header{Table: &spec, State: true}, []row{{1, []float32{1, 2, 3, 4}}}))
	f.Add(write(f, Header{Dense: &Dense{Name: "d", Elements: 4}}, []row{{0, []float32{1, 2}}, {2, []float32{1, 2}}}))
	f.Add([]byte("#psrt-text 1\n#{\"table\":{\"name\":\"e\",\"id\":1,\"dim\":1}}\n5\tx00000001\n#end"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := read(b); err != nil && !errors.Is(err, outdir.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

var rewrite = flag.Bool("rewrite", false, "write testdata anew (only for a new format)")

// TestGolden: files of every format are read for ever, and those of the present
// one are written as they were.
func TestGolden(t *testing.T) {
	rows := []row{{0, []float32{0, 1, 2, 3}}, {math.MaxUint64, []float32{-0.1, 1e-42, 3.4e38, 5}}}
	for format := 1; format <= Format; format++ {
		for name, h := range map[string]Header{
			"table": {Table: &spec, State: true, Model: []byte(`{"digest":"00"}`)},
			"dense": {Dense: &Dense{Name: "mlp", ID: 5, Elements: 4}, State: true},
		} {
			rows := rows
			if h.Dense != nil {
				rows = []row{{0, []float32{1, 2, 9}}, {2, []float32{3, 4, 8}}}
			}
			path := filepath.Join("testdata", fmt.Sprintf("format%d-%s.tsv", format, name))
			now := write(t, h, rows)
			if *rewrite && format == Format {
				check(t, os.MkdirAll("testdata", 0o777))
				check(t, os.WriteFile(path, now, 0o666))
			}
			b, err := os.ReadFile(path)
			check(t, err)
			if format == Format && !bytes.Equal(body(b), body(now)) {
				t.Errorf("%s is not what is written now: a format never changes", path)
			}
			if got, _, err := read(b); err != nil || !same(got, rows) {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
	}
}

// body is what stands between the description, which may grow, and the last line.
func body(b []byte) []byte {
	_, b, _ = bytes.Cut(b, []byte("\n#{"))
	_, b, _ = bytes.Cut(b, []byte("\n"))
	b, _, _ = bytes.Cut(b, []byte("\n"+endMark))
	return b
}
