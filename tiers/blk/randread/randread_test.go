package randread

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/feature"
	"psrt/rdma/invariant"
	"psrt/tiers/blk"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

func open(t *testing.T, m *blk.Memory) blk.Device {
	t.Helper()
	d, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestEveryBlockIsChecked: equal seeds read equal places on any device, and
// one wrong bit is found.
func TestEveryBlockIsChecked(t *testing.T) {
	seed := seedtest.Seed(t)
	cfg := Config{Bytes: 4096, Depth: 16, Reads: 3000, Seed: seed}
	m := blk.NewMemory(blk.MemoryConfig{Seed: seed})
	disk, err := blk.Open(t.TempDir(), blk.Config{Depth: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	var sums []uint64
	for _, d := range []blk.Device{open(t, m), disk} {
		file, err := Prepare(d, "data", 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, notified := range []bool{false, true} {
			cfg.Notified = notified
			r, err := Open(d, file, 4<<20, cfg)
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.Run()
			if err != nil {
				t.Fatalf("%s: %v", d, err)
			}
			if res.Reads != cfg.Reads || res.PerSecond() <= 0 || res.CPUMicros() < 0 {
				t.Errorf("%s: %+v", d, res)
			}
			sums = append(sums, res.Sum)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sums {
		if s != sums[0] || s == 0 {
			t.Fatalf("sums of equal runs: %x", sums)
		}
	}

	for at := int64(0); at < 4<<20; at += 4096 {
		if err := m.Corrupt("data", at+3, 5); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, m)
	file, size, err := d.Open("data")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(d, file, size, Config{Bytes: 4096, Depth: 4, Reads: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(); err == nil || !strings.Contains(err.Error(), "another's bytes") {
		t.Errorf("wrong bytes pass: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	d := open(t, blk.NewMemory(blk.MemoryConfig{}))
	if _, err := Prepare(d, "data", 1000); err == nil {
		t.Error("Prepare of 1000 bytes")
	}
	for _, cfg := range []Config{{}, {Bytes: 512}, {Bytes: 100, Depth: 1}, {Bytes: 512, Depth: 1000}, {Bytes: 512, Depth: 2, Batch: 3}, {Bytes: 8192, Depth: 1}} {
		if _, err := Open(d, 0, 4096, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func TestParseFio(t *testing.T) {
	const good = `{"jobs":[{"error":0,"read":{"total_ios":5000,"runtime":250},"usr_cpu":4.0,"sys_cpu":36.0}]}`
	r, err := parseFio([]byte(good))
	if err != nil || r.Reads != 5000 || r.PerSecond() != 20000 || r.CPUMicros() != 20 {
		t.Errorf("%+v, %v: %v a second, %v us", r, err, r.PerSecond(), r.CPUMicros())
	}
	for _, bad := range []string{"", "{}", strings.Replace(good, `"error":0`, `"error":5`, 1), strings.Replace(good, "5000", "0", 1), strings.Replace(good, "250", "0", 1)} {
		if _, err := parseFio([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestFio runs both for an instant: that fio reads the file that we made.
func TestFio(t *testing.T) {
	_, err := exec.LookPath("fio")
	if err != nil {
		err = &feature.MissingError{Test: feature.Test{Name: "fio", Requirement: "the command fio", Remedy: ".ci/deps.sh test"}, Detail: err.Error()}
	}
	feature.SkipUnless(t, err)
	dir := t.TempDir()
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := Prepare(d, "data", 4<<20); err != nil {
		t.Fatal(err)
	}
	r, err := Fio(t.Context(), filepath.Join(dir, "data"), Config{Bytes: 4096, Depth: 8, Seed: 1}, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Reads < 1 || r.Elapsed <= 0 {
		t.Errorf("%+v", r)
	}
	if _, err := Fio(t.Context(), filepath.Join(dir, "none"), Config{Bytes: 4096, Depth: 8}, time.Millisecond); err == nil {
		t.Error("fio reads a file that is not there")
	}
}
