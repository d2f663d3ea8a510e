package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/tiers/export/outdir"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// example has tensors of every type, one of them empty, one without dimensions.
func example(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	ts := []Tensor{{"emb.weights", I8, []int64{3, 5}}, {"emb.scale", F32, []int64{3}}, {"half", F16, []int64{2, 2}},
		{"emb.keys", U64, []int64{3}}, {"none", F32, []int64{0, 17}}, {"one", F32, nil}}
	w, err := NewWriter(&b, ts, map[string]string{"format": "psrt", "quotes": `"é`})
	check(t, err)
	for _, x := range ts {
		n, err := x.Bytes()
		check(t, err)
		_, err = w.Write(bytes.Repeat([]byte(x.Name[:1]), int(n)))
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

// TestAgainstTheSpecification reads the file as the format's description says,
// with nothing of this package.
func TestAgainstTheSpecification(t *testing.T) {
	b := example(t)
	n := binary.LittleEndian.Uint64(b)
	header, data := b[8:8+n], b[8+n:]
	if header[0] != '{' || (8+n)%8 != 0 {
		t.Errorf("the header begins with %q, data at %d", header[0], 8+n)
	}
	var all map[string]struct {
		Dtype       string `json:"dtype"`
		Shape       []int  `json:"shape"`
		DataOffsets []int  `json:"data_offsets"`
		Format      string `json:"format"`
	}
	check(t, json.Unmarshal(bytes.TrimRight(header, " "), &all))
	if all["__metadata__"].Format != "psrt" {
		t.Errorf("metadata %+v", all["__metadata__"])
	}
	delete(all, "__metadata__")
	size := map[string]int{"U64": 8, "F32": 4, "F16": 2, "I8": 1}
	covered := 0
	for name, e := range all {
		n := size[e.Dtype]
		for _, d := range e.Shape {
			n *= d
		}
		if e.Shape == nil {
			t.Errorf("%s: shape null", name)
		}
		from, to := e.DataOffsets[0], e.DataOffsets[1]
		if to-from != n || from%size[e.Dtype] != 0 || string(data[from:to]) != strings.Repeat(name[:1], n) {
			t.Errorf("%s: %+v", name, e)
		}
		covered += n
	}
	if covered != len(data) || len(all) != 6 {
		t.Errorf("%d tensors cover %d of %d bytes", len(all), covered, len(data))
	}
}

func TestReadsItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	check(t, os.WriteFile(path, example(t), 0o666))
	f, err := Open(path)
	check(t, err)
	defer f.Close()
	if len(f.Tensors) != 6 || f.Tensors[0].Name != "emb.keys" || f.Metadata["quotes"] != `"é` {
		t.Errorf("%+v, %v", f.Tensors, f.Metadata)
	}
	b, err := io.ReadAll(f.Tensor("half"))
	if err != nil || string(b) != "hhhhhhhh" {
		t.Errorf("half is %q, %v", b, err)
	}
	if f.Tensor("other") != nil {
		t.Error("a tensor that is not there")
	}
}

func TestRefuses(t *testing.T) {
	for says, ts := range map[string][]Tensor{
		"the name": {{"a", F32, nil}, {"a", F32, nil}}, "metadata": {{"__metadata__", F32, nil}}, "type": {{"a", "F8", nil}},
		"shape": {{"a", F32, []int64{math.MaxInt64, 2}}}, "[-1]": {{"a", F32, []int64{-1}}},
	} {
		if _, err := NewWriter(&bytes.Buffer{}, ts, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", ts, err)
		}
	}
	w, err := NewWriter(&bytes.Buffer{}, []Tensor{{"a", F32, nil}}, nil)
	check(t, err)
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "4 bytes of tensors are missing") {
		t.Errorf("closed without its tensor: %v", err)
	}
	w, err = NewWriter(&bytes.Buffer{}, []Tensor{{"a", F32, nil}}, nil)
	check(t, err)
	if _, err := w.Write(make([]byte, 5)); err == nil {
		t.Error("5 bytes of 4 are accepted")
	}
	good := example(t)
	path := filepath.Join(t.TempDir(), "x")
	for _, n := range []int{0, 7, 8, 100, len(good) - 1} {
		check(t, os.WriteFile(path, good[:n], 0o666))
		if _, err := Open(path); !errors.Is(err, outdir.ErrCorrupt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := Open(path + "y"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(example(f))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add(append([]byte("\x40\x00\x00\x00\x00\x00\x00\x00"), `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}          ABCD`...))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "x")
		check(t, os.WriteFile(path, b, 0o666))
		file, err := Open(path)
		if err != nil {
			if !errors.Is(err, outdir.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		defer file.Close()
		for _, x := range file.Tensors {
			n, err := x.Bytes()
			check(t, err)
			if got, err := io.ReadAll(file.Tensor(x.Name)); err != nil || int64(len(got)) != n {
				t.Fatalf("%s: %d of %d bytes, %v", x.Name, len(got), n, err)
			}
		}
	})
}

var rewrite = flag.Bool("rewrite", false, "write testdata anew (only for a new format)")

// TestGolden: the file that Python's safetensors has read is written as then.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "format1.safetensors")
	if *rewrite {
		check(t, os.MkdirAll("testdata", 0o777))
		check(t, os.WriteFile(path, example(t), 0o666))
	}
	b, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(b, example(t)) {
		t.Errorf("%s is not what is written now", path)
	}
	f, err := Open(path)
	check(t, err)
	check(t, f.Close())
}
