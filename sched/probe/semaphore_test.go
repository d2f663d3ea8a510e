package probe

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// semaphores reads those of our points in this process's memory.
func semaphores(t *testing.T) map[string]uint16 {
	t.Helper()
	_, points, err := findPoints(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	all := map[string]uint16{}
	for name, p := range points {
		var b [2]byte
		if _, err := memory.ReadAt(b[:], writable(t, p.semaphore)); err != nil {
			t.Fatal(err)
		}
		all[name] = binary.LittleEndian.Uint16(b[:])
	}
	return all
}

// writable is where this process has a place of its program's file, to write.
func writable(t *testing.T, offset uint64) int64 {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to, at, inode uint64
		var rights, device, path string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &from, &to, &rights, &at, &device, &inode, &path)
		if n == 7 && path == self && rights == "rw-p" && offset >= at && offset-at < to-from {
			return int64(from + offset - at)
		}
	}
	t.Fatalf("byte %#x of %s is not mapped to write", offset, self)
	return 0
}

// TestSemaphores: they are up while somebody looks, however many, and at no
// other time.
func TestSemaphores(t *testing.T) {
	if !hasPoints(t) {
		return // built without cgo: TestUSDTNotes says so
	}
	requireUSDT(t)
	check := func(want uint16) {
		t.Helper()
		for name, n := range semaphores(t) {
			if n != want {
				t.Errorf("the semaphore of psrt:%s is %d, want %d", name, n, want)
			}
		}
	}
	check(0)
	var meters [2]*USDT
	for i := range meters {
		var err error
		if meters[i], err = OpenUSDT(USDTConfig{}); err != nil {
			t.Fatal(err)
		}
		check(1)
	}
	for i, m := range meters {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		check(1 - uint16(i))
	}
}
