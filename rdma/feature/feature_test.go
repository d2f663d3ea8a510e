package feature

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func tree(t *testing.T, files map[string]string) Root {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Root(root)
}

func TestThreeAnswersAndWhatIsKept(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer error
		no     bool
		asked  int // of two Checks
	}{
		{"yes", nil, false, 1},
		{"no", missing("0 free"), true, 1},
		{"could not tell", errors.New("disk on fire"), false, 2},
	} {
		asked := 0
		test := Test{Name: tc.name, Requirement: "luck", Remedy: "wait", Probe: func(Root) error {
			asked++
			return tc.answer
		}}
		p := NewProber("")
		p.Check(test)
		err := p.Check(test)
		if asked != tc.asked || (err == nil) != (tc.answer == nil) || errors.Is(err, ErrNotSupported) != tc.no {
			t.Errorf("%s: asked %d times, %v", tc.name, asked, err)
		}
		if tc.no && !(strings.Contains(err.Error(), "luck") && strings.Contains(err.Error(), "wait") && strings.Contains(err.Error(), "0 free")) {
			t.Errorf("message lacks requirement, remedy or detail: %v", err)
		}
	}
}

func TestThisMachineAnswers(t *testing.T) {
	for _, a := range NewProber("").Report(All()) {
		if a.Err != nil && !errors.Is(a.Err, ErrNotSupported) {
			t.Errorf("%s: could not tell: %v", a.Test.Name, a.Err)
		}
		t.Logf("%s: %v", a.Test.Name, a.Err)
	}
}

type fakeTB struct{ skipped, failed bool }

func (f *fakeTB) Helper()      {}
func (f *fakeTB) Skip(...any)  { f.skipped = true }
func (f *fakeTB) Fatal(...any) { f.failed = true }

func TestSkipUnless(t *testing.T) {
	t.Setenv("PSRT_LAB", "rxe")
	for _, tc := range []struct {
		name string
		err  error
		want fakeTB
	}{
		{"yes", nil, fakeTB{}},
		{"no", &MissingError{}, fakeTB{skipped: true}},
		{"no, and the lab promises it", &MissingError{Test: Test{Lab: "rxe"}}, fakeTB{failed: true}},
		{"no, another lab promises it", &MissingError{Test: Test{Lab: "gpu"}}, fakeTB{skipped: true}},
		{"could not tell", errors.New("x"), fakeTB{failed: true}},
	} {
		var got fakeTB
		SkipUnless(&got, tc.err)
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{"": nil, "0": {0}, "0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11}} {
		if got, err := ParseList(s, 100); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"a", "3-1", "-1", "0-", "0-101", "0-100,0-100", "1,,2"} {
		if got, err := ParseList(s, 100); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseList(s, 1023)
		if err == nil && len(list) > 1024 {
			t.Errorf("%d numbers from %q", len(list), s)
		}
	})
}

func TestNodesAndPages(t *testing.T) {
	r := tree(t, map[string]string{
		"sys/devices/system/node/has_memory":                                      "0,2",
		"sys/devices/system/node/node2/meminfo":                                   "Node 2 MemTotal: 99 kB\nNode 2 MemFree: 12 kB",
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":                 "10",
		"sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages":                 "3",
		"sys/devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages": "4",
		"sys/kernel/mm/transparent_hugepage/enabled":                              "always [madvise] never",
		"sys/kernel/mm/transparent_hugepage/shmem_enabled":                        "always within_size advise never [deny] force",
	})
	if n, err := r.Nodes(); err != nil || !reflect.DeepEqual(n, []int{0, 2}) {
		t.Error(n, err)
	}
	if n, err := r.NodeFreeBytes(2); err != nil || n != 12<<10 {
		t.Error(n, err)
	}
	if all, _ := r.FreeHugePages(-1); all != 7 {
		t.Errorf("%d free on the machine, want 7", all)
	}
	if two, _ := r.FreeHugePages(2); two != 4 {
		t.Errorf("%d free on node 2, want 4", two)
	}
	a, s, err := r.THP()
	if a != "madvise" || s != "deny" || err != nil {
		t.Error(a, s, err)
	}
	for test, no := range map[*Test]bool{&SeveralNodes: false, &HugePages: false, &TransparentHugePages: false, &SharedTransparentHugePages: true} {
		if err := NewProber(string(r)).Check(*test); errors.Is(err, ErrNotSupported) != no {
			t.Errorf("%s: %v", test.Name, err)
		}
	}
	for _, test := range []Test{HugePages, TransparentHugePages, SharedTransparentHugePages, SeveralNodes} {
		if err := NewProber(t.TempDir()).Check(test); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s on an empty machine: %v", test.Name, err)
		}
	}
}

func TestMemoryLimits(t *testing.T) {
	const (
		meminfo = "MemTotal: 1 kB\nMemAvailable:  4096 kB"
		v2mount = "38 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw"
		v1mount = "35 31 0:32 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory"
		docker  = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
	)
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  int64
		from  string
	}{
		{"machine only", nil, 4 << 20, "MemAvailable"},
		{"v2, the parent is tighter; its file cache counts as free", map[string]string{
			"proc/self/cgroup": "0::/a/b", "proc/self/mountinfo": v2mount,
			"sys/fs/cgroup/a/b/memory.max": "3000000", "sys/fs/cgroup/a/b/memory.current": "1000",
			"sys/fs/cgroup/a/memory.max": "2000000", "sys/fs/cgroup/a/memory.current": "1500000",
			"sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 100000\nactive_file 50000",
		}, 650000, "memory.max = 2000000 of cgroup /a"},
		{"v2 without limits", map[string]string{
			"proc/self/cgroup": "0::/a", "proc/self/mountinfo": v2mount, "sys/fs/cgroup/a/memory.max": "max",
		}, 4 << 20, "MemAvailable"},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:cpu:/x\n4:memory:/job", "proc/self/mountinfo": v1mount,
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000000", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1200000",
			"sys/fs/cgroup/memory/job/memory.stat":       "inactive_file 9\ntotal_inactive_file 300000",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/memory.usage_in_bytes": "5",
		}, 100000, "memory.limit_in_bytes = 1000000 of cgroup /job"},
		{"v1 in a container that mounts its own group", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/abc", "proc/self/mountinfo": docker,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "500000", "sys/fs/cgroup/memory/memory.usage_in_bytes": "100000",
		}, 400000, "cgroup /docker/abc"},
		{"more used than allowed", map[string]string{
			"proc/self/cgroup": "0::/a", "proc/self/mountinfo": v2mount,
			"sys/fs/cgroup/a/memory.max": "10", "sys/fs/cgroup/a/memory.current": "20",
		}, 0, "memory.max"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"proc/meminfo": meminfo}
			for k, v := range tc.files {
				files[k] = v
			}
			limits, err := tree(t, files).MemoryLimits()
			if err != nil {
				t.Fatal(err)
			}
			if l := Tightest(limits); l.Bytes != tc.want || !strings.Contains(l.Source, tc.from) || l.Remedy == "" {
				t.Errorf("%+v, want %d from %q", l, tc.want, tc.from)
			}
		})
	}
	if _, err := tree(t, nil).MemoryLimits(); err == nil {
		t.Error("a machine without meminfo has limits")
	}
}
