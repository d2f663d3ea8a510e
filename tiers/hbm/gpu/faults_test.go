//go:build cgo

package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/accel"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// faultVariable has the test run itself as a process whose fake driver has a fault.
const faultVariable = "PSRT_GPU_TEST_FAULT"

var faultSpec = table.Spec{Name: "t", ID: 1, Dim: 16, Optimizer: table.Optimizer{Kind: table.Adam}}

// faults are what a fake driver is told, and what must come of it.
var faults = map[string]struct {
	env   []string
	check func(t *testing.T)
}{
	"no room": {[]string{"PSRT_FAKE_CUDA_BYTES=100000"}, func(t *testing.T) {
		_, err := openCache(t)
		var refused *accel.Error
		if !errors.Is(err, hbm.ErrDevice) || !errors.As(err, &refused) || !accel.IsOutOfMemory(err) || !strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") || !strings.Contains(err.Error(), "--hbm-budget") {
			t.Errorf("no room gives %v", err)
		}
	}},
	"no card": {[]string{"PSRT_FAKE_CUDA_DEVICES=0"}, func(t *testing.T) {
		if _, err := cuda.Load(os.Getenv(faultVariable)); !errors.Is(err, cuda.ErrNotSupported) || !strings.Contains(err.Error(), "no CUDA-capable device") {
			t.Errorf("a driver without a card gives %v", err)
		}
	}},
	"one card that is full": {[]string{"PSRT_FAKE_CUDA_DEVICES=3", "PSRT_FAKE_CUDA_UNFIT=0"}, func(t *testing.T) {
		for server := range 2 {
			d, release, err := Pick(server, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			if d.Index == 0 {
				t.Errorf("server %d has the card that is full", server)
			}
		}
	}},
	"one of like cards that is full": {[]string{"PSRT_FAKE_CUDA_DEVICES=2", "PSRT_FAKE_CUDA_LIKE=1", "PSRT_FAKE_CUDA_FULL=0"}, func(t *testing.T) {
		d, release, err := Pick(0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if d.Index != 1 || !strings.HasPrefix(d.Name(), "GPU 1, fake") {
			t.Errorf("card %d is picked, %s; card 1 has room", d.Index, d.Name())
		}
	}},
	"like cards, all of them full": {[]string{"PSRT_FAKE_CUDA_DEVICES=2", "PSRT_FAKE_CUDA_LIKE=1", "PSRT_FAKE_CUDA_BYTES=100000", "PSRT_FAKE_CUDA_FULL=0"}, func(t *testing.T) {
		d, release, err := Pick(0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if d.Index != 1 {
			t.Errorf("card %d is picked, card 1 has most room", d.Index)
		}
	}},
	"all cards are full": {[]string{"PSRT_FAKE_CUDA_DEVICES=2", "PSRT_FAKE_CUDA_BYTES=100000"}, func(t *testing.T) {
		if _, _, err := Pick(0, 1<<20); !cuda.IsOutOfMemory(err) {
			t.Errorf("no card to pick gives %v", err)
		}
	}},
	"a kernel that fails": {[]string{"PSRT_FAKE_CUDA_FAIL=3"}, func(t *testing.T) {
		c, err := openCache(t)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		}()
		l := &tiers.Lookup{Keys: []uint64{1, 2, 3}, Rows: make([]uint32, 3), Create: true}
		if !c.Start(l) || l.Err != nil {
			t.Fatalf("the first lookup: %v", l.Err)
		}
		grads := make([]float32, 48)
		for range 3 {
			c.Apply(l.Rows, grads)
		}
		c.Release(l.Rows)
		l = &tiers.Lookup{Keys: []uint64{4}, Rows: make([]uint32, 1), Create: true}
		if c.Start(l); l.Err == nil || !strings.Contains(l.Err.Error(), "CUDA_ERROR_LAUNCH_FAILED") {
			t.Errorf("a lookup on a device that has failed: %v", l.Err)
		}
	}},
	"a card that has failed is not taken again": {[]string{"PSRT_FAKE_CUDA_FAIL=3"}, func(t *testing.T) {
		d := &Device{Library: os.Getenv(faultVariable)}
		c, err := openOn(t, d, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		l := &tiers.Lookup{Keys: []uint64{1, 2, 3}, Rows: make([]uint32, 3), Create: true}
		if !c.Start(l) || l.Err != nil {
			t.Fatalf("the first lookup: %v", l.Err)
		}
		for range 3 {
			c.Apply(l.Rows, make([]float32, 48))
		}
		if err := c.Failed(); err != nil || !strings.Contains(c.Stats().Device.Failed, "GPU 0") {
			t.Errorf("with a journal: %v, %+v", err, c.Stats().Device)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := openOn(t, d, 1<<16); !errors.Is(err, hbm.ErrDevice) || !strings.Contains(err.Error(), "has failed in this process") || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") {
			t.Errorf("taken again: %v", err)
		}
	}},
	"a card that hangs as it updates": {nil, func(t *testing.T) {
		hangs(t, func(c *hbm.Cache, l *tiers.Lookup) {
			if n := c.Apply(l.Rows, make([]float32, 48)); n != 0 {
				t.Errorf("%d rows refused", n)
			}
		})
	}},
	"a card that hangs as it gathers": {nil, func(t *testing.T) {
		hangs(t, func(c *hbm.Cache, l *tiers.Lookup) {
			dst := make([]float32, 3*faultSpec.Dim)
			if c.Gather(l.Rows, dst); !slices.Equal(dst, bornOf(t, l.Keys)) {
				t.Errorf("gathered %v, rows are made as %v", dst, bornOf(t, l.Keys))
			}
		})
	}},
	"tables of a card have its kernels compiled once": {[]string{"PSRT_FAKE_CUDA_DEVICES=2"}, compiledOnce},
	"a table beside one that has the card hang": {nil, func(t *testing.T) {
		_, first, other, hang := neighbours(t)
		hang()
		if err := first.Wait(gathered(first)); !errors.Is(err, ErrHangs) {
			t.Errorf("the table whose stream hangs: %v", err)
		}
		// Another stage of the other's, which has no pinned memory yet.
		if err := other.Wait(moved(other)); !errors.Is(err, ErrHangs) {
			t.Errorf("the other: %v", err)
		}
		if _, err := other.Buffer(1); !errors.Is(err, ErrHangs) {
			t.Errorf("memory of the host: %v", err)
		}
		if err := errors.Join(first.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}},
	"a table that is closed beside one that has the card hang": {nil, func(t *testing.T) {
		_, first, other, hang := neighbours(t)
		hang()
		if err := first.Wait(gathered(first)); !errors.Is(err, ErrHangs) {
			t.Errorf("the table whose stream hangs: %v", err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}},
	"a table that is closed while nobody knows that the card hangs": {nil, func(t *testing.T) {
		d, _, other, hang := neighbours(t)
		hang()
		if err := other.Close(); err != nil || d.hangs() == nil {
			t.Errorf("closing: %v; the card: %v", err, d.hangs())
		}
	}},
	"memory of the host while nobody knows that the card hangs": {nil, func(t *testing.T) {
		d, _, other, hang := neighbours(t)
		hang()
		if err := other.Wait(moved(other)); !errors.Is(err, ErrHangs) || d.hangs() == nil {
			t.Errorf("a row that comes: %v; the card: %v", err, d.hangs())
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}},
	"a card that hangs as it finds": {nil, func(t *testing.T) {
		hangs(t, func(c *hbm.Cache, l *tiers.Lookup) {
			dst := make([]float32, 3*faultSpec.Dim)
			look := &tiers.Lookup{Keys: l.Keys, Rows: make([]uint32, 3), Into: dst}
			if !c.Start(look) || look.Err != nil {
				t.Fatalf("a lookup: %v", look.Err)
			}
			if !look.Gathered {
				c.Gather(look.Rows, dst)
			}
			if !slices.Equal(dst, bornOf(t, l.Keys)) {
				t.Errorf("found and gathered %v, rows are made as %v", dst, bornOf(t, l.Keys))
			}
		})
	}},
}

// compiledOnce: each card's own kernels go with its last table, and one that is opened then has them compiled
// again; who only looks at a card has none.
func compiledOnce(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	t.Setenv("PSRT_FAKE_CUDA_TRACE", trace)
	acc, err := accessor.New(faultSpec, 1)
	if err != nil {
		t.Fatal(err)
	}
	open := func(card int) hbm.Arena {
		d := &Device{Index: card, Library: os.Getenv(faultVariable)}
		a, err := d.Open(acc, newIndex(t, slots), slots, 100)
		if err := errors.Join(err, d.Probe()); err != nil {
			t.Fatal(err)
		}
		return a
	}
	shut := func(all ...hbm.Arena) {
		for _, a := range all {
			if err := errors.Join(a.Wait(gathered(a)), a.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	first, other := open(0), open(1)
	second := open(0)
	shut(first)
	shut(open(0), other, second)
	shut(open(0))
	text, err := os.ReadFile(trace)
	if want := "compile 0\ncompile 1\nunload 1\nunload 0\ncompile 0\nunload 0\n"; err != nil || string(text) != want {
		t.Errorf("%v: the driver was told to\n%swant\n%s", err, text, want)
	}
}

// neighbours are two tables on a card that hangs in the first one's stream, once hang is called; the other's
// work is done.
func neighbours(t *testing.T) (d *Device, first, other hbm.Arena, hang func()) {
	file := filepath.Join(t.TempDir(), "hang")
	t.Setenv("PSRT_FAKE_CUDA_HANG", file)
	d = &Device{Library: os.Getenv(faultVariable), Within: 50 * time.Millisecond}
	acc, err := accessor.New(faultSpec, 1)
	if err != nil {
		t.Fatal(err)
	}
	var both [2]hbm.Arena
	for i := range both {
		if both[i], err = d.Open(acc, newIndex(t, slots), slots, 100); err != nil {
			t.Fatal(err)
		}
		if err := both[i].Wait(moved(both[i])); err != nil {
			t.Fatal(err)
		}
	}
	return d, both[0], both[1], func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// moved copies a row from memory that is not pinned.
func moved(a hbm.Arena) hbm.Fence {
	return a.CopyIn([]uint32{1}, make([]float32, faultSpec.RowFloats()))
}

// gathered has a stage's pinned memory already.
func gathered(a hbm.Arena) hbm.Fence {
	return a.Gather([]uint32{1}, make([]float32, faultSpec.Dim), faultSpec.Dim)
}

// hangs has a card that rows lie on hang, and then do something with them: memory that goes with that is
// not pinned, as a worker's is not.
func hangs(t *testing.T, do func(*hbm.Cache, *tiers.Lookup)) {
	hang := filepath.Join(t.TempDir(), "hang")
	t.Setenv("PSRT_FAKE_CUDA_HANG", hang)
	c, err := openOn(t, &Device{Library: os.Getenv(faultVariable), Within: 50 * time.Millisecond}, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	l := &tiers.Lookup{Keys: []uint64{1, 2, 3}, Rows: make([]uint32, 3), Create: true}
	if !c.Start(l) || l.Err != nil {
		t.Fatalf("the first lookup: %v", l.Err)
	}
	dst := make([]float32, 3*faultSpec.Dim)
	if look := (&tiers.Lookup{Keys: l.Keys, Rows: make([]uint32, 3), Into: dst}); !c.Start(look) || look.Err != nil { // all are there
		t.Fatalf("the second lookup: %v", look.Err)
	}
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do(c, l)
	if c.Failed() != nil || !strings.Contains(c.Stats().Device.Failed, "not over after 50ms") {
		t.Errorf("%v, %+v", c.Failed(), c.Stats().Device)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// bornOf is the weights of rows as they are made.
func bornOf(t *testing.T, keys []uint64) (weights []float32) {
	acc, err := accessor.New(faultSpec, 1)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, acc.RowFloats())
	for _, key := range keys {
		acc.Born(key, row)
		weights = append(weights, row[:faultSpec.Dim]...)
	}
	return weights
}

func openCache(t *testing.T) (*hbm.Cache, error) {
	return openOn(t, &Device{Library: os.Getenv(faultVariable)}, 0)
}

func openOn(t *testing.T, d *Device, journal int64) (*hbm.Cache, error) {
	m, err := tiers.NewMemory(faultSpec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := hbm.New(m, hbm.Config{Device: d, MaxBytes: 1 << 20, BatchRows: 64, Node: -1, Journal: journal})
	if err != nil {
		_ = m.Close()
	}
	return c, err
}

// TestDriverFails: each fault gives an error that says what it is.
func TestDriverFails(t *testing.T) {
	if os.Getenv(faultVariable) != "" {
		faults[os.Getenv("PSRT_GPU_TEST_NAME")].check(t)
		return
	}
	library := cudatest.Build(t)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^TestDriverFails$", "-test.v", "-test.timeout=1m")
			c.Env = append(append(os.Environ(), faultVariable+"="+library, "PSRT_GPU_TEST_NAME="+name, cuda.Variable+"="+library), f.env...)
			if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// TestNoDriverFails: what is no driver says why.
func TestNoDriverFails(t *testing.T) {
	math, err := filepath.Glob("/lib/*/libm.so.6")
	if err != nil || len(math) == 0 {
		t.Fatalf("no library that is none: %v", err)
	}
	for library, says := range map[string]string{
		"/nowhere/libcuda.so.1": "not supported on this machine: /nowhere/libcuda.so.1",
		math[0]:                 "has no cuInit: it is no CUDA driver at all",
	} {
		c := exec.Command(os.Args[0], "-test.run=^TestDriverFails$", "-test.v")
		c.Env = append(os.Environ(), faultVariable+"="+library, "PSRT_GPU_TEST_NAME=no room")
		if text, _ := c.CombinedOutput(); !strings.Contains(string(text), says) || strings.Contains(string(text), "older than") {
			t.Errorf("%s:\n%s", library, text)
		}
	}
}
