//go:build cgo

package rule

import (
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/kernels"
)

// compile makes a library of a C file.
func compile(t testing.TB, source string, defines ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "rule.so")
	args := []string{"-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I.", "-o", out, source}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	if b, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s: %v\n%s", source, err, b)
	}
	return out
}

const momentum = "../examples/momentum.c"

// TestTry: the worked example passes, and each wrong library is refused with
// what is wrong about it.
func TestTry(t *testing.T) {
	facts, err := Try(compile(t, momentum), "momentum=0.5\nrate=0.1", 4)
	if err != nil || facts != (Facts{Name: "momentum", State: 4}) {
		t.Fatalf("%+v, %v", facts, err)
	}
	for define, want := range map[string]string{
		"NO_SYMBOL":    "exports no psrt_rule_get",
		"RETURNS_NULL": "returned NULL",
		"OTHER_ABI":    "version 9",
		"SHORT":        "size 16",
		"FLAGS":        "flags 0x80",
		"NAME":         "1 to 31 of a-z",
		"NO_APPLY":     "open, close and apply must be set",
		"SILENT":       "did not say why",
		"HUGE_STATE":   "1048576 floats",
		"BEYOND":       "wrote where no row is, 9 floats behind",
		"COUNTS":       "a second run",
		"BATCHED":      "rows one by one",
	} {
		if _, err := Try(compile(t, "testdata/bad.c", define), "", 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", define, err, want)
		}
	}
	good := compile(t, "testdata/bad.c")
	for params, want := range map[string]string{"rate=x": "rate is no number", "\x00": "zero byte"} {
		if _, err := Try(good, params, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("params %q: error %v, want one that says %q", params, err, want)
		}
	}
	for path, want := range map[string]string{"rule.so": "./rule.so", "./none.so": "none.so", "./rule_test.go": "rule_test.go"} {
		if _, err := Try(path, "", 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("path %s: error %v, want one that says %q", path, err, want)
		}
	}
}

// TestUpdate follows the example beside its formula, in batches longer than one
// call takes, with rows that are refused among them.
func TestUpdate(t *testing.T) {
	const dim, count = 3, 1000
	r, err := Open(compile(t, momentum), "momentum=0.5\nrate=0.25", dim)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	mem := make([]float32, count*2*dim)
	rows := &kernels.Rows{Bases: []*float32{&mem[0]}, Shift: 10, Stride: 2 * dim, Count: count}
	r.Begin(rows, 0, make([]uint64, count))
	ids, grads := make([]uint32, count+1), make([]float32, (count+1)*dim)
	for i := range ids {
		ids[i] = uint32(i) // the last is no row
	}
	for i := range grads {
		grads[i] = float32(i % 8)
	}
	grads[7*dim] = float32(math.NaN())
	for step := 1; step <= 2; step++ {
		if refused := r.Update(rows, ids, grads); refused != 2 {
			t.Fatalf("%d refused, want 2", refused)
		}
	}
	for i := range count {
		for j := range dim {
			g := float32((i*dim + j) % 8)
			v, w := 1.5*g, -0.25*g-0.25*1.5*g
			if i == 7 {
				v, w = 0, 0
			}
			if row := mem[i*2*dim:]; row[j] != w || row[dim+j] != v {
				t.Fatalf("row %d: weight %v state %v, want %v and %v", i, row[j], row[dim+j], w, v)
			}
		}
	}
	r.Close()
}
