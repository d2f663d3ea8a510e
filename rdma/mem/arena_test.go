package mem

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma"
	"psrt/rdma/feature"
	"psrt/rdma/invariant"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

var _ rdma.Memory = (*Arena)(nil)

func TestArenaForms(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
	}{
		{"one byte", Config{Size: 1}},
		{"odd, any node", Config{Size: 12345, Node: -1}},
		{"transparent", Config{Size: 4<<20 + 17, Node: -1}},
		{"pre-faulted", Config{Size: 3 << 20, Prefault: true}},
		{"locked", Config{Size: 1 << 20, Lock: true}},
		{"shared", Config{Size: 100, Share: true}},
		{"shared, large, pre-faulted", Config{Size: 5 << 20, Share: true, Prefault: true}},
		{"never huge", Config{Size: 4 << 20, Huge: "never"}},
		{"node that does not exist", Config{Size: 4096, Node: 777}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Purpose = "test " + tc.name
			a, err := New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(a.Info())
			b := a.Bytes()
			if len(b) != tc.cfg.Size || !bytes.Equal(b, make([]byte, tc.cfg.Size)) {
				t.Errorf("%d bytes, want %d zeros", len(b), tc.cfg.Size)
			}
			b[0], b[len(b)-1] = 1, 2
			i := a.Info()
			if i.PagesWhy == "" && i.Pages != HugePages || i.NodeWhy == "" || i.LockedWhy == "" {
				t.Errorf("Info gives no reason: %+v", i)
			}
			if tc.cfg.Lock && !i.Locked && !strings.Contains(i.LockedWhy, "RLIMIT_MEMLOCK") {
				t.Errorf("unlocked without figures: %s", i.LockedWhy)
			}
			if tc.cfg.Node == 777 && (i.Node == 777 || !strings.Contains(i.NodeWhy, "777")) {
				t.Errorf("node 777: %d, %s", i.Node, i.NodeWhy)
			}
			checkDescriptor(t, a, tc.cfg.Share)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkDescriptor maps a shared arena a second time and sees the same bytes.
func checkDescriptor(t *testing.T, a *Arena, share bool) {
	t.Helper()
	fd, off, ok := a.Descriptor()
	if ok != share {
		t.Fatalf("Descriptor ok %t, want %t", ok, share)
	}
	if !share {
		return
	}
	second, err := unix.Mmap(fd, off, len(a.Bytes()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(second)
	if !bytes.Equal(second, a.Bytes()) {
		t.Error("the descriptor is another memory")
	}
	if err := unix.Ftruncate(fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrinking a shared arena: %v, want EPERM by its seal", err)
	}
	if err := unix.Ftruncate(fd, 1<<30); !errors.Is(err, unix.EPERM) {
		t.Errorf("growing a shared arena: %v, want EPERM by its seal", err)
	}
}

func TestPagesAreOnTheNodeInfoNames(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.MemoryBinding))
	a, err := New(Config{Size: 4 << 20, Node: 0, Purpose: "placement", Prefault: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.NUMANode() < 0 {
		t.Fatalf("node unknown: %s", a.Info().NodeWhy)
	}
	for off := 0; off < len(a.Bytes()); off += 1 << 20 {
		if n, err := feature.PageNode(a.Bytes()[off:]); err != nil || n != a.NUMANode() {
			t.Errorf("page at %d is on node %d (%v), Info says %d", off, n, err, a.NUMANode())
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []Config{
		{Size: 0, Purpose: "x"},
		{Size: -1, Purpose: "x"},
		{Size: maxSize + 1, Purpose: "x"},
		{Size: 10},
		{Size: 10, Purpose: "x", Node: -2},
		{Size: 10, Purpose: "x", Huge: "sometimes"},
	} {
		if a, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, %v", cfg, a, err)
		}
	}
}

func TestTooLargeIsAClearError(t *testing.T) {
	for _, share := range []bool{false, true} {
		_, err := New(Config{Size: 1 << 50, Purpose: "rows", Share: share, Prefault: true})
		var no *NoMemoryError
		if !errors.As(err, &no) || !errors.Is(err, ErrNoMemory) {
			t.Fatalf("share %t: %v", share, err)
		}
		if no.Needed < 1<<50 || no.Allowed <= 0 || no.Remedy == "" || no.Purpose != "rows" {
			t.Errorf("share %t: %+v", share, no)
		}
		for _, want := range []string{"needed 1024 TiB", "allowed", "rows"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("message lacks %q: %v", want, err)
			}
		}
	}
}

func TestLockRequired(t *testing.T) {
	limit, err := feature.MemlockLimit()
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Size: 1 << 20, Purpose: "locked", LockRequired: true})
	if err != nil {
		if !strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
			t.Errorf("refused without figures (limit %d): %v", limit, err)
		}
		return
	}
	defer a.Close()
	if !a.Info().Locked {
		t.Errorf("LockRequired gave an unlocked arena: %s", a.Info().LockedWhy)
	}
}

func TestAlloc(t *testing.T) {
	a, err := New(Config{Size: 1000, Purpose: "alloc"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	first, _ := a.Alloc(10, 1)
	second, err := a.Alloc(64, 64)
	if err != nil || len(first) != 10 || len(second) != 64 || cap(second) != 64 {
		t.Fatalf("%d, %d, %v", len(first), len(second), err)
	}
	second[0] = 9
	if a.Bytes()[64] != 9 {
		t.Error("the second piece does not begin at 64")
	}
	for _, bad := range [][2]int{{-1, 1}, {1, 0}, {1, 3}, {1, -8}, {1, 4 << 20}} {
		if _, err := a.Alloc(bad[0], bad[1]); err == nil {
			t.Errorf("Alloc(%d, %d) succeeded", bad[0], bad[1])
		}
	}
	if _, err := a.Alloc(873, 1); !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "872 of 1000") {
		t.Errorf("beyond the end: %v", err)
	}
	if b, err := a.Alloc(872, 1); err != nil || len(b) != 872 {
		t.Errorf("the last bytes: %v", err)
	}
	if _, err := a.Alloc(0, 4096); !errors.Is(err, ErrNoMemory) {
		t.Errorf("aligned beyond the end: %v", err)
	}
}

func TestUsage(t *testing.T) {
	usage := func() (u PurposeUsage) {
		for _, u := range Usage() {
			if u.Purpose == "usage" {
				return u
			}
		}
		return u
	}
	a, err := New(Config{Size: 4096, Purpose: "usage"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Size: 4097, Purpose: "usage"})
	if err != nil {
		t.Fatal(err)
	}
	if u := usage(); u.Arenas != 2 || u.Bytes != 3*4096 {
		t.Errorf("two live: %+v", u)
	}
	a.Close()
	b.Close()
	if u := usage(); u.Arenas != 0 || u.Bytes != 0 || u.Peak != 3*4096 {
		t.Errorf("none live: %+v", u)
	}
}

// Who has mapped a shared arena before it was renewed has the old memory for himself.
func TestRenew(t *testing.T) {
	for _, size := range []int{100, 5<<20 + 3} {
		a, err := New(Config{Size: size, Share: true, Prefault: true, Purpose: "test renew"})
		if err != nil {
			t.Fatal(err)
		}
		b := a.Bytes()
		for i := range b {
			b[i] = byte(i * 7)
		}
		want := bytes.Clone(b)
		fd, off, _ := a.Descriptor()
		old, err := unix.Mmap(fd, off, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Renew(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) || !bytes.Equal(old, want) {
			t.Error("the bytes are others")
		}
		for i := range old {
			old[i] = 0xff
		}
		if !bytes.Equal(b, want) || &b[0] != &a.Bytes()[0] {
			t.Error("what was mapped before is the same memory still")
		}
		checkDescriptor(t, a, true)
		if err := errors.Join(unix.Munmap(old), a.Close()); err != nil {
			t.Error(err)
		}
	}
	a, err := New(Config{Size: 100, Purpose: "test renew"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Renew(); err == nil {
		t.Error("an arena without a file is renewed")
	}
}
