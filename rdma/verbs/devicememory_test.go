package verbs_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma"
)

// device memory of which the CPU must not touch a byte: it faults.
type untouchable []byte

func (m untouchable) Bytes() []byte                { return m }
func (untouchable) Descriptor() (int, int64, bool) { return -1, 0, false }
func (untouchable) NUMANode() int                  { return -1 }
func (untouchable) DMABuf() (int, int64, bool)     { return -1, 0, false }

// TestDeviceMemorySmall: what is small goes inline by a copy of the CPU, but
// not from the memory of another device.
func TestDeviceMemorySmall(t *testing.T) {
	a, b := pairOfDomains(t)
	qx, qy := queueOf(t, a), queueOf(t, b)
	x, y := endpointOn(t, a, qx, false), endpointOn(t, b, qy, false)
	join(t, x, y)
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	copy(m, "from another device")
	r, err := a.Register(untouchable(m), rdma.AccessLocal, "verbs test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if err := unix.Mprotect(m, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	to := region(t, b, 4096)
	if n, err := x.Post([]rdma.WR{{Op: rdma.OpWrite, Signaled: true, Local: m[:19], Remote: to.Remote().Slice(0, 19)}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if c := next(t, qx); c.Status != rdma.StatusOK {
		t.Fatalf("%+v", c)
	}
	if !bytes.HasPrefix(to.Bytes(), []byte("from another device")) {
		t.Errorf("arrived: %q", to.Bytes()[:19])
	}
}
