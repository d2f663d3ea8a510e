//go:build cgo

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported is the library's own dynamic symbols.
func exported(t *testing.T, file string) (names []string, soname string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL && s.Section != elf.SHN_ABS {
			names = append(names, "symbol "+s.Name)
		}
	}
	slices.Sort(names)
	so, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(so) != 1 {
		t.Fatalf("soname %v, %v", so, err)
	}
	return names, so[0]
}

var prototype = regexp.MustCompile(`(?m)^(?:int|uint32_t|uint64_t|const char \*) ?(psrt_\w+)\(`)

// The record of a release is what its programs were compiled with: it may not
// change while the SONAME is the same. A later minor version has a record of its
// own, which holds all lines of the ones before but the sizes of structs, which
// grow. PSRT_ABI_RECORD=1 writes the record of a new version.
func TestABI(t *testing.T) {
	symbols, soname := exported(t, filepath.Join(library(t), "libpsrt.so"))
	if soname != "libpsrt.so.1" {
		t.Errorf("the SONAME is %s, want libpsrt.so.1", soname)
	}
	now := append([]string{"soname " + soname}, symbols...)
	now = append(now, strings.Split(strings.TrimSpace(run(t, program(t, "abi"))), "\n")...)
	header, err := os.ReadFile("psrt.h")
	if err != nil {
		t.Fatal(err)
	}
	version := ""
	for _, part := range []string{"MAJOR", "MINOR"} {
		m := regexp.MustCompile(`(?m)^#define PSRT_ABI_` + part + ` (\d+)$`).FindSubmatch(header)
		if m == nil {
			t.Fatalf("psrt.h says no PSRT_ABI_%s", part)
		}
		version += "." + string(m[1])
	}
	version = version[1:]
	record := filepath.Join("abi", version+".txt")
	text := strings.Join(now, "\n") + "\n"
	if os.Getenv("PSRT_ABI_RECORD") != "" {
		if _, err := os.Stat(record); err == nil {
			t.Fatalf("%s is there already: a release is recorded once; raise PSRT_ABI_MINOR", record)
		}
		if err := os.WriteFile(record, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(record)
	if err != nil {
		t.Fatalf("%v: PSRT_ABI_RECORD=1 go test -run TestABI ./cmd/libpsrt writes it", err)
	}
	for _, l := range diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")) {
		t.Errorf("against %s: %s; what a release has stays, what is new needs a new PSRT_ABI_MINOR", record, l)
	}
	older, err := filepath.Glob(filepath.Join("abi", strings.Split(version, ".")[0]+".*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range older {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(string(b), "\n") {
			if !strings.HasPrefix(l, "size ") && !slices.Contains(now, l) && l != "" {
				t.Errorf("%s has %q, which is no more", name, l)
			}
		}
	}
	var declared []string
	for _, m := range prototype.FindAllSubmatch(header, -1) {
		declared = append(declared, "symbol "+string(m[1]))
	}
	slices.Sort(declared)
	for _, l := range diff(declared, symbols) {
		t.Errorf("psrt.h against the library: %s", l)
	}
}

func diff(want, got []string) (lines []string) {
	for _, l := range want {
		if !slices.Contains(got, l) {
			lines = append(lines, "lacks "+l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			lines = append(lines, "has besides "+l)
		}
	}
	return lines
}

// psrt.h compiles alone, as C and as C++, and every function has a comment that
// names it or stands in a group that has one.
func TestHeader(t *testing.T) {
	for _, args := range [][]string{
		{"gcc", "-std=c99", "-x", "c"}, {"gcc", "-std=c11", "-x", "c"}, {"g++", "-std=c++17", "-x", "c++"}, {"g++", "-std=c++11", "-x", "c++"},
	} {
		cmd := exec.Command(args[0], append(args[1:], "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-fsyntax-only", "-I.", "-")...)
		cmd.Stdin = strings.NewReader("#include \"psrt.h\"\n#include \"psrt.h\"\nint main(void) { psrt_call_options o = {sizeof o, 0, 0, 0, 0, 0, 0, 0, 0}; return psrt_wait(0, o.size); }\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	b, err := os.ReadFile("psrt.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range strings.Split(string(b), "\n\n") {
		for _, m := range prototype.FindAllStringSubmatch(group, -1) {
			comment, _, ok := strings.Cut(group, "*/")
			base := regexp.MustCompile(`_(opt|async)$`).ReplaceAllString(m[1], "")
			if !ok || !strings.HasPrefix(comment, "/* "+base) {
				t.Errorf("%s stands below no comment that begins with %s", m[1], base)
			}
			if !strings.Contains(comment, "PSRT_E") && !strings.Contains(comment, "Errors as") && strings.HasPrefix(strings.TrimSpace(group[strings.Index(group, "*/")+2:]), "int ") {
				t.Errorf("the comment of %s names no error", m[1])
			}
		}
	}
}

// What make install puts down is enough for gcc app.c $(pkg-config --cflags --libs psrt).
func TestPkgConfig(t *testing.T) {
	lib, prefix := library(t), t.TempDir()
	for _, d := range []string{"lib/pkgconfig", "include"} {
		if err := os.MkdirAll(filepath.Join(prefix, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	template, err := os.ReadFile("psrt.pc.in")
	if err != nil {
		t.Fatal(err)
	}
	pc := strings.NewReplacer("@PREFIX@", prefix, "@VERSION@", "1.0.0").Replace(string(template))
	if err := os.WriteFile(filepath.Join(prefix, "lib/pkgconfig/psrt.pc"), []byte(pc), 0o644); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{filepath.Join(lib, "libpsrt.so"): "lib/libpsrt.so.1", "psrt.h": "include/psrt.h"} {
		if out, err := exec.Command("cp", from, filepath.Join(prefix, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.Symlink("libpsrt.so.1", filepath.Join(prefix, "lib/libpsrt.so")); err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(prefix, "app.c")
	if err := os.WriteFile(app, []byte("#include <psrt.h>\nint main(void) { return psrt_abi_version() >> 16 == PSRT_ABI_MAJOR ? 0 : 1; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "gcc -o app app.c $(pkg-config --cflags --libs psrt) && ./app")
	cmd.Dir, cmd.Env = prefix, append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(prefix, "lib/pkgconfig"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
