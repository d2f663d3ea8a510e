package blk_test

import (
	"testing"
	"time"

	"psrt/tiers/blk"
	"psrt/tiers/blk/blktest"
)

// onDisk opens devices in a temporary folder.
func onDisk(cfg blk.Config) blktest.Factory {
	return func(t *testing.T) (blk.Device, func() blk.Device) {
		dir := t.TempDir()
		open := func() blk.Device {
			d, err := blk.Open(dir, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return open(), open
	}
}

func inMemory(cfg blk.MemoryConfig) blktest.Factory {
	return func(t *testing.T) (blk.Device, func() blk.Device) {
		m := blk.NewMemory(cfg)
		open := func() blk.Device {
			d, err := m.Open()
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return open(), open
	}
}

// sound wraps a device in a Faulty without faults.
func sound(open blktest.Factory) blktest.Factory {
	return func(t *testing.T) (blk.Device, func() blk.Device) {
		d, again := open(t)
		return blk.NewFaulty(d, 1), func() blk.Device { return blk.NewFaulty(again(), 1) }
	}
}

func limited(open blktest.Factory) blktest.Factory {
	return func(t *testing.T) (blk.Device, func() blk.Device) {
		d, again := open(t)
		return blk.NewLimited(d, 1e5, time.Millisecond), func() blk.Device { return blk.NewLimited(again(), 1e5, 0) }
	}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		open blktest.Factory
	}{
		{"best", onDisk(blk.Config{})},
		{"best/4096", onDisk(blk.Config{Block: 4096, Depth: 3})},
		{"best/buffered", onDisk(blk.Config{Buffered: true})},
		{"best/few files", onDisk(blk.Config{Files: 2, Depth: 7})},
		{"best/old ring", onDisk(blk.Config{OldRing: true})},
		{"pread", onDisk(blk.Config{Engine: blk.EnginePread})},
		{"pread/buffered", onDisk(blk.Config{Engine: blk.EnginePread, Buffered: true, Depth: 5})},
		{"memory", inMemory(blk.MemoryConfig{Seed: 1})},
		{"memory/4096", inMemory(blk.MemoryConfig{Block: 4096, InOrder: true})},
		{"faulty memory", sound(inMemory(blk.MemoryConfig{Depth: 6}))},
		{"limited memory", limited(inMemory(blk.MemoryConfig{Depth: 6}))},
	} {
		t.Run(c.name, func(t *testing.T) { blktest.Run(t, c.open) })
	}
}
