package pair

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDownUndoesUp pairs the lines: what is added last is taken away first.
func TestDownUndoesUp(t *testing.T) {
	var want []string
	for _, line := range slices.Backward(up) {
		switch {
		case strings.HasPrefix(line, "rule add "):
			want = append(want, strings.Replace(line, "add", "del", 1))
		case strings.HasPrefix(line, "rule del "):
			want = append(want, strings.Replace(line, "del", "add", 1))
		}
	}
	want = append(want, "link del "+LinkA)
	if !slices.Equal(down, want) {
		t.Errorf("down is\n%s\nwant\n%s", strings.Join(down, "\n"), strings.Join(want, "\n"))
	}
	// A rule for local addresses is in force at every moment.
	if at, was := slices.Index(up, "rule add pref 11 lookup local"), slices.Index(up, "rule del pref 0 lookup local"); at < 0 || at > was {
		t.Errorf("local addresses are lost between line %d and line %d", was, at)
	}
}

// tree writes files below a new folder, as sysfs would have them.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "class/infiniband", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDevices(t *testing.T) {
	sys := tree(t, map[string]string{
		"mlx5_0/ports/1/state": "1: DOWN\n", "mlx5_0/ports/2/state": "4: ACTIVE\n",
		"mlx5_1/ports/1/state": "1: DOWN\n", "rxe0/ports/1/state": "4: ACTIVE\n",
	})
	got, err := Devices(sys)
	if err != nil || strings.Join(got, " ") != "mlx5_0 rxe0" {
		t.Errorf("%v, %v; want mlx5_0 rxe0", got, err)
	}
	if got, err := Devices(t.TempDir()); len(got) != 0 || err != nil {
		t.Errorf("a machine without RDMA: %v, %v", got, err)
	}
}

func TestHasGID(t *testing.T) {
	const gid = "0000:0000:0000:0000:0000:ffff:0a4d:0001\n"
	sys := tree(t, map[string]string{
		"rxe0/ports/1/gids/0": "fe80:0000:0000:0000:b0c9:21ff:fe40:4851\n", "rxe0/ports/1/gid_attrs/types/0": "RoCE v2\n",
		"rxe0/ports/1/gids/1": gid, "rxe0/ports/1/gid_attrs/types/1": "RoCE v2\n",
		"rxe1/ports/1/gids/0": gid, "rxe1/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
		"rxe2/ports/1/gids/0": gid, // its type cannot be read, as of an empty entry
	})
	for _, c := range []struct {
		device, address string
		want            bool
	}{
		{"rxe0", AddressA, true}, {"rxe0", AddressB, false}, {"rxe1", AddressA, false}, {"rxe2", AddressA, false}, {"rxe9", AddressA, false}, {"rxe0", "no address", false},
	} {
		if got := HasGID(sys, c.device, c.address); got != c.want {
			t.Errorf("%s has a GID for %s: %v, want %v", c.device, c.address, got, c.want)
		}
	}
}

func TestCounter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "n")
	if _, err := counter(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]int64{"17\n": 17, "x": -1, "": -1} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := counter(name); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
