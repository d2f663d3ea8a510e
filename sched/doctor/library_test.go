package doctor

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A library without what psrt calls in it, of another machine, or that is none is
// named with its path; one of another machine is passed over, as the loader does.
func TestWrongLibraries(t *testing.T) {
	found, err := filepath.Glob("/lib/*/libm.so.6")
	if err != nil || len(found) == 0 {
		t.Fatalf("no library to look at: %v", err)
	}
	real, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	foreign := append([]byte(nil), real...)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_SPARCV9)) // e_machine
	dirs := map[string]string{}
	for name, text := range map[string][]byte{"real": real, "foreign": foreign, "script": []byte("INPUT ( /usr/lib/libm.so )"), "cut": real[:200]} {
		dir := t.TempDir()
		dirs[name] = dir
		if err := os.WriteFile(filepath.Join(dir, "libx.so.1.2.3"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("libx.so.1.2.3", filepath.Join(dir, "libx.so.1")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		places  []string
		symbols []string
		state   string
		says    string
	}{
		{"there", []string{"real"}, []string{"sin", "cos"}, OK, "libx.so.1 (2.3)"},
		{"too old", []string{"real"}, []string{"sin", "sin_of_the_next_release"}, Warn, "wrong library: it has no sin_of_the_next_release: older than 9.9"},
		{"another", []string{"real"}, []string{"x_init"}, Warn, "wrong library: it is no X at all"},
		{"of another machine", []string{"foreign"}, []string{"sin"}, Warn, "wrong library: for another machine, EM_SPARCV9"},
		{"of another machine, then ours", []string{"foreign", "real"}, []string{"sin"}, OK, dirs["real"]},
		{"no library", []string{"script"}, []string{"sin"}, Warn, "wrong library: bad magic number"},
		{"cut short", []string{"cut"}, []string{"sin"}, Warn, "wrong library: the file is cut short"},
		{"the first counts", []string{"script", "real"}, []string{"sin"}, Warn, dirs["script"]},
		{"nowhere", nil, []string{"sin"}, Missing, "no libx.so.1 where libraries usually are"},
	} {
		x := &examiner{machine{t.TempDir()}, Config{}, t.Context()}
		for _, p := range c.places {
			x.cfg.Libraries = append(x.cfg.Libraries, dirs[p])
		}
		f := x.library(library{"X", "libx.so.1", "9.9", "apt-get install libx", c.symbols, ""})
		if f.State != c.state || !strings.Contains(f.Figure, c.says) || (f.State == OK) != (f.Mend == "") {
			t.Errorf("%s: %+v, want %s and %q", c.name, f, c.state, c.says)
		}
		if c.state == Warn && !strings.Contains(f.Mend, "out of LD_LIBRARY_PATH") {
			t.Errorf("%s: %q", c.name, f.Mend)
		}
	}
}

// What a variable of the environment names is looked at, as it is what is loaded.
func TestNamedLibraries(t *testing.T) {
	found, err := filepath.Glob("/lib/*/libm.so.6")
	if err != nil || len(found) == 0 {
		t.Fatalf("no library to look at: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(found[0], filepath.Join(dir, "libm-of-ours.so")); err != nil {
		t.Fatal(err)
	}
	x := &examiner{machine{t.TempDir()}, Config{Libraries: []string{dir}}, t.Context()}
	for _, c := range []struct{ named, state, says string }{
		{found[0], OK, found[0]},
		{"libm-of-ours.so", OK, "libm-of-ours.so"},
		{"/nowhere/libm.so", Warn, "no /nowhere/libm.so, which PSRT_X_LIBRARY names"},
		{"libm-of-theirs.so", Missing, "no libm-of-theirs.so where"},
		{"", Missing, "no libx.so.1 where"},
	} {
		t.Setenv("PSRT_X_LIBRARY", c.named)
		f := x.library(library{"X", "libx.so.1", "9.9", "PSRT_X_LIBRARY", []string{"sin"}, "PSRT_X_LIBRARY"})
		if f.State != c.state || !strings.Contains(f.Figure, c.says) || (c.state == OK) != strings.Contains(f.Figure, "as PSRT_X_LIBRARY says") {
			t.Errorf("%q: %+v, want %s and %q", c.named, f, c.state, c.says)
		}
	}
}

// TestSameSymbols: a library that the doctor finds whole lacks nothing for who loads it.
func TestSameSymbols(t *testing.T) {
	for i, want := range []struct {
		all  int
		some []string
	}{{40, []string{"cuInit", "cuDevicePrimaryCtxRelease_v2", "cuMemcpy2DAsync_v2", "cuEventElapsedTime"}}, {15, []string{"ncclGetVersion", "ncclRecv", "ncclGetErrorString"}}} {
		l := known()[i]
		if len(l.symbols) < want.all || slices.Contains(l.symbols, "ncclCommInitRankConfig") {
			t.Errorf("%s: %d symbols: %v", l.name, len(l.symbols), l.symbols)
		}
		for _, s := range want.some {
			if !slices.Contains(l.symbols, s) {
				t.Errorf("%s: %s is not looked for: %v", l.name, s, l.symbols)
			}
		}
	}
}
