package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/bench/lab/wire"
)

// readArchive is a second reading of the format, field by field.
func readArchive(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for {
		if len(data) < 110 || string(data[:6]) != "070701" {
			t.Fatalf("no header where one is due, %d bytes before the end", len(data))
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(data[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameBytes := field(1), field(6), field(11)
		name := string(data[110 : 110+nameBytes-1])
		content := (110 + nameBytes + 3) &^ 3
		if name == "TRAILER!!!" {
			if len(data) != content {
				t.Errorf("%d bytes after the end", len(data)-content)
			}
			return files
		}
		files[name] = fmt.Sprintf("%o %d:%d %s", mode, field(9), field(10), data[content:content+size])
		data = data[(content+size+3)&^3:]
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := &archive{w: &b}
	for _, err := range []error{
		a.dir("dev"), a.charDevice("dev/console", 5, 1), a.program("init", []byte("#!")),
		a.file("a", []byte("12345")), a.file("empty", nil), a.close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"dev": "40755 0:0 ", "dev/console": "20600 5:1 ", "init": "100755 0:0 #!", "a": "100644 0:0 12345", "empty": "100644 0:0 ",
	}
	got := readArchive(t, b.Bytes())
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read back %v, want %v", got, want)
	}
}

func TestSelectModules(t *testing.T) {
	depends := map[string][]string{
		"rdma_rxe": {"ib_core", "udp_tunnel", "ib_uverbs"}, "ib_uverbs": {"ib_core"}, "crc32_pclmul": nil,
		"ib_core": {"ring"}, "ring": {"ib_core"}, "udp_tunnel": nil, "broken": {"nowhere"},
	}
	files := map[string]string{}
	for name := range depends {
		files[name] = name
	}
	walk := func() *selection {
		return &selection{files: files, builtin: map[string]bool{"veth": true}, seen: map[string]bool{},
			depends: func(file string) ([]string, error) { return depends[file], nil }}
	}
	s := walk()
	for _, name := range []string{"rdma_rxe", "veth", "ib_uverbs", "crc32_pclmul"} {
		if err := s.add(name, name == "crc32_pclmul", "the test"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add("crc32c_intel", true, "the test"); err != nil {
		t.Errorf("an optional module that is not there: %v", err)
	}
	var order []string
	for _, m := range s.order {
		order = append(order, m.name)
	}
	if got, want := strings.Join(order, " "), "ring ib_core udp_tunnel ib_uverbs rdma_rxe crc32_pclmul"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if err := walk().add("broken", false, "the test"); err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a dependency that is not there: %v", err)
	}
}

func TestParseDepends(t *testing.T) {
	for info, want := range map[string]string{
		"license=GPL\x00depends=ib_core,ip6-udp-tunnel\x00name=rdma_rxe\x00": "ib_core ip6_udp_tunnel",
		"license=GPL\x00depends=\x00":                                        "",
		"":                                                                   "",
	} {
		if got := strings.Join(parseDepends([]byte(info)), " "); got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
	for file, want := range map[string]string{"md-mod.ko": "md_mod", "kernel/a/nvme.ko.xz": "nvme", "veth.ko": "veth"} {
		if got := moduleName(file); got != want {
			t.Errorf("moduleName(%s) = %s, want %s", file, got, want)
		}
	}
}

func TestKernelChoice(t *testing.T) {
	cache := t.TempDir()
	if _, ok := cachedKernel(cache, "r1"); ok {
		t.Error("a kernel in an empty cache")
	}
	for _, dir := range []string{"6.1.0-9-amd64-r1", "6.1.0-56-amd64-r1", "6.1.0-56-amd64-r2", "7.0.0-1-amd64-r2", "tmp-123"} {
		if err := os.Mkdir(filepath.Join(cache, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if k, ok := cachedKernel(cache, "r1"); !ok || k.Version != "6.1.0-56-amd64" {
		t.Errorf("found %+v, want 6.1.0-56-amd64: the newest of this recipe", k)
	}
	for depends, want := range map[string]string{
		"linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n":     "6.1.0-56-amd64",
		"linux-image-generic\n |Depends: linux-image-6.8.0-88-generic\n": "6.8.0-88-generic",
		"linux-image-amd64\n  Depends: <nothing>\n":                      "",
		"": "",
	} {
		got, ok := kernelVersion(depends)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", depends, got, ok, want)
		}
	}
	for env, want := range map[string]string{
		"PSRT_CACHE=/c":                    "/c/lab",
		"XDG_CACHE_HOME=/x HOME=/h":        "/x/psrt/lab",
		"HOME=/h":                          "/h/.cache/psrt/lab",
		"PSRT_CACHE=/c XDG_CACHE_HOME=/x ": "/c/lab",
	} {
		got := DefaultCache(func(name string) string {
			for _, v := range strings.Fields(env) {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%s: cache %s, want %s", env, got, want)
		}
	}
	if a, b := probeName("6.1", "boot1"), probeName("6.1", "boot2"); a == b {
		t.Errorf("an answer for one start of the host, %s, holds for the next", a)
	}
}

func TestMachineArgs(t *testing.T) {
	m := machine{accel: "tcg", kernel: "/k", cpus: 2, memoryMiB: 4097, shares: []wire.Share{{Tag: "share0", Path: "/a,b"}}}
	args := strings.Join(m.args(), " ")
	for _, want := range []string{
		"-kernel /k", "-accel tcg,thread=multi -cpu max", "-smp 2 ", "-m 4097M", "path=/,security_model=none,readonly=on",
		"id=share0,path=/a,,b,security_model=none", "mount_tag=share0", "socket,id=lab,fd=3", "-initrd /proc/self/fd/4",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("no %q in %s", want, args)
		}
	}
	if strings.Contains(args, "-numa") || strings.Contains(args, "kvm") {
		t.Errorf("NUMA or KVM unasked in %s", args)
	}
	m.numa, m.accel = true, "kvm"
	args = strings.Join(m.args(), " ")
	for _, want := range []string{
		"id=memory0,size=2048M", "id=memory1,size=2049M", "node,nodeid=0,cpus=0-0,memdev=memory0", "node,nodeid=1,cpus=1-1,memdev=memory1",
		"sockets=2", "-accel kvm",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("no %q in %s", want, args)
		}
	}
}

func TestEnvironment(t *testing.T) {
	caller := []string{"PATH=/home/me/bin:/usr/bin", "HOME=/home/me", "PSRT_SEED=7", "GOFLAGS=-mod=mod", "SECRET=x", "WANTED=y", "PSRT_LAB=no"}
	env := Environment(caller, []string{"A=b=c", "WANTED", "NOT_THERE"}, []string{"PSRT_LAB=rxe", "PSRT_LAB_NUMA=1"})
	want := []string{"A=b=c", "HOME=/home/me", "PATH=/home/me/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin", "PSRT_LAB=rxe", "PSRT_LAB_NUMA=1", "PSRT_SEED=7", "USER=root", "WANTED=y"}
	if !slices.Equal(env, want) {
		t.Errorf("got %q\nwant %q", env, want)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		out     string
		code    int
		mayskip bool
		ok      bool
		shown   []string
		hidden  string
	}{
		"passes":       {out: "=== RUN   TestA\n    a_test.go:1: a word\n--- PASS: TestA (0.00s)\nPASS\n", ok: true, shown: []string{"ok  \tp\t1.500s"}, hidden: "a word"},
		"fails":        {out: "=== RUN   TestA\n    a_test.go:1: why\n--- FAIL: TestA (0.00s)\nFAIL\n", code: 1, shown: []string{"why", "FAIL\tp\t1.500s", "exit code 1"}, hidden: "=== RUN"},
		"skips":        {out: "--- PASS: TestB (0.00s)\n    a_test.go:1: no device\n--- SKIP: TestA (0.00s)\nPASS\n", shown: []string{"no device", "FAIL\tp", "skipped, which the lab does not allow: TestA"}},
		"skips within": {out: "--- PASS: TestB (0.00s)\n    --- SKIP: TestB/odp (0.00s)\nPASS\n", shown: []string{"FAIL\tp", "TestB/odp"}},
		"real card":    {out: "--- PASS: TestB (0.00s)\n--- SKIP: TestA (0.00s)\nPASS\n", mayskip: true, ok: true},
		"runs nothing": {out: "testing: warning: no tests to run\nPASS\n", shown: []string{"no test ran"}},
		"no newline":   {out: "--- PASS: TestB (0.00s)\n--- SKIP: TestA (0.00s)", shown: []string{"TestA"}},
		"crashes":      {out: "=== RUN   TestA\npanic: oh\n", code: 2, shown: []string{"panic: oh", "exit code 2"}},
	} {
		for _, chunk := range []int{1, 7, 1000} {
			var b bytes.Buffer
			j := &judge{w: &b, mayskip: c.mayskip}
			for part := range slices.Chunk([]byte(c.out), chunk) {
				if n, err := j.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if ok := j.close("p", c.code, 1500*time.Millisecond); ok != c.ok {
				t.Errorf("%s: ok is %v, want %v", name, ok, c.ok)
			}
			for _, s := range c.shown {
				if !strings.Contains(b.String(), s) {
					t.Errorf("%s: %q is not in %q", name, s, b.String())
				}
			}
			if c.hidden != "" && strings.Contains(b.String(), c.hidden) {
				t.Errorf("%s: %q is in %q", name, c.hidden, b.String())
			}
		}
	}
}

func TestJudgeHoldsLittle(t *testing.T) {
	var b bytes.Buffer
	j := &judge{w: &b}
	line := []byte(strings.Repeat("x", 1<<16-1) + "\n")
	for range 3 * maxHeld / len(line) {
		if _, err := j.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	j.close("p", 1, 0)
	if b.Len() > maxHeld+1000 || !strings.Contains(b.String(), "lines of output before these are left out") {
		t.Errorf("%d bytes are shown, at most %d and a word on the rest are due", b.Len(), maxHeld)
	}
}
