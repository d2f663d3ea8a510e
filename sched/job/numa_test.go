package job

import (
	"os"
	"path/filepath"
	"testing"

	"psrt/rdma/feature"
)

func TestNUMANode(t *testing.T) {
	machine := func(list string) feature.Root {
		dir := t.TempDir()
		node := filepath.Join(dir, "sys/devices/system/node")
		if err := os.MkdirAll(node, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(node, "has_memory"), []byte(list+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return feature.Root(dir)
	}
	one, two := machine("0"), machine("0,2")
	for _, c := range []struct {
		flag string
		rank int
		root feature.Root
		want int
		bad  bool
	}{
		{"auto", 0, one, -1, false}, {"auto", 3, one, -1, false},
		{"auto", 0, two, 0, false}, {"auto", 1, two, 2, false}, {"auto", 2, two, 0, false},
		{"none", 1, two, -1, false}, {"2", 0, two, 2, false}, {"1", 0, two, 0, true}, {"x", 0, two, 0, true}, {"-1", 0, two, 0, true},
	} {
		got, err := NUMANode(c.flag, c.rank, c.root)
		if (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%q rank %d: node %d, %v", c.flag, c.rank, got, err)
		}
	}
}
