package mem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes a fake machine.
func tree(t *testing.T, files map[string]string) string {
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
	return root
}

const (
	pool       = "sys/kernel/mm/hugepages/hugepages-2048kB/"
	node1Pool  = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages"
	thp        = "sys/kernel/mm/transparent_hugepage/"
	withMemory = "sys/devices/system/node/has_memory"
)

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		cfg   Config
		node  int
		want  []PageKind
		why   string // in the last candidate's reason
	}{
		{"pool and thp", map[string]string{pool + "free_hugepages": "9", thp + "enabled": "always [madvise] never"},
			Config{Size: 8 << 20}, -1, []PageKind{HugePages, TransparentPages, SmallPages}, "refused"},
		{"reserved pages are not free", map[string]string{pool + "free_hugepages": "9", pool + "resv_hugepages": "6", thp + "enabled": "[always] madvise never"},
			Config{Size: 8 << 20}, -1, []PageKind{TransparentPages, SmallPages}, "needs 4 huge pages, 3 are free"},
		{"other node's pages", map[string]string{pool + "free_hugepages": "9", node1Pool: "1", thp + "enabled": "[always] madvise never"},
			Config{Size: 8 << 20}, 1, []PageKind{TransparentPages, SmallPages}, "1 are free on node 1"},
		{"no thp", map[string]string{thp + "enabled": "always madvise [never]"},
			Config{Size: 8 << 20}, -1, []PageKind{SmallPages}, "enabled is never"},
		{"shared thp off", map[string]string{thp + "enabled": "[always] madvise never", thp + "shmem_enabled": "always within_size advise [never] deny force"},
			Config{Size: 8 << 20, Share: true}, -1, []PageKind{SmallPages}, "shmem_enabled is never"},
		{"shared thp on", map[string]string{thp + "enabled": "[always] madvise never", thp + "shmem_enabled": "always within_size [advise] never deny force"},
			Config{Size: 8 << 20, Share: true}, -1, []PageKind{TransparentPages, SmallPages}, "0 are free"},
		{"garbage in the pool", map[string]string{pool + "free_hugepages": "many", thp + "enabled": "[always] madvise never"},
			Config{Size: 8 << 20}, -1, []PageKind{TransparentPages, SmallPages}, "want a number"},
		{"switched off", map[string]string{pool + "free_hugepages": "9"}, Config{Size: 8 << 20, Huge: "never"}, -1, []PageKind{SmallPages}, "switched off"},
		{"small", map[string]string{pool + "free_hugepages": "9"}, Config{Size: 1 << 20}, -1, []PageKind{SmallPages}, "smaller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Root = tree(t, tc.files)
			got := plan(&tc.cfg, tc.node)
			var kinds []PageKind
			for _, c := range got {
				kinds = append(kinds, c.kind)
			}
			if len(kinds) != len(tc.want) {
				t.Fatalf("%v, want %v", kinds, tc.want)
			}
			for i := range kinds {
				if kinds[i] != tc.want[i] {
					t.Fatalf("%v, want %v", kinds, tc.want)
				}
			}
			if why := got[len(got)-1].why; !strings.Contains(why, tc.why) {
				t.Errorf("reason %q lacks %q", why, tc.why)
			}
		})
	}
}

func TestPlacement(t *testing.T) {
	two := map[string]string{withMemory: "0-1"}
	for _, tc := range []struct {
		name       string
		files      map[string]string
		node       int
		bind, know int
		why        string
	}{
		{"bound", two, 1, 1, 1, "mbind"},
		{"any", two, -1, -1, -1, "any node"},
		{"no such node", two, 5, -1, -1, "[0 1]"},
		{"one node", map[string]string{withMemory: "0"}, 0, -1, 0, "node 0 only"},
		{"one node, another asked", map[string]string{withMemory: "0"}, 3, -1, 0, "node 3 asked for"},
		{"no NUMA in the kernel", nil, 0, -1, 0, "node 0 only"},
		{"garbage", map[string]string{withMemory: "0-"}, 0, -1, -1, "cannot read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bind, know, why := placement(&Config{Node: tc.node, Root: tree(t, tc.files)})
			if bind != tc.bind || know != tc.know || !strings.Contains(why, tc.why) {
				t.Errorf("bind %d, know %d, %q; want %d, %d, %q", bind, know, why, tc.bind, tc.know, tc.why)
			}
		})
	}
}

func TestBudgetNamesTheTightestLimit(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/meminfo":                 "MemTotal: 100000 kB\nMemAvailable:   65536 kB",
		"proc/self/cgroup":             "0::/job",
		"proc/self/mountinfo":          "38 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
		"sys/fs/cgroup/job/memory.max": "33554432", "sys/fs/cgroup/job/memory.current": "1048576",
	})
	_, err := New(Config{Size: 48 << 20, Purpose: "rows", Node: -1, Root: root})
	var no *NoMemoryError
	if !errors.As(err, &no) {
		t.Fatal(err)
	}
	if no.Allowed != 31<<20-31<<20/headroom || no.Needed != 48<<20 || !strings.Contains(no.By, "memory.max") {
		t.Errorf("%+v", no)
	}
	a, err := New(Config{Size: 30 << 20, Purpose: "rows", Node: -1, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}
