//go:build cgo

package device_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/rdma/invariant"
	"psrt/rdma/mem"
	"psrt/sched/kv"
	"psrt/sched/kv/device"
	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

const dim, keys, threads, rounds = 4, 300, 6, 15

// TestStaging: threads that pull and push rows in a GPU's memory, each on a stream of
// its own, with a device that does all work as late as it may: no staging is used
// again too early, and all of it is given back with the client.
func TestStaging(t *testing.T) {
	t.Setenv("PSRT_FAKE_CUDA_FENCED", "1")
	library := cudatest.Library(t)
	t.Setenv(cuda.Variable, library)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	driver, err := cuda.Load(library)
	must(err)
	dev, err := driver.Open(0)
	must(err)
	defer func() { must(dev.Close()) }()
	w := kvtest.New(t, kvtest.Shape{Transport: "shm", Servers: 1, Lanes: 2, Workers: 1, Staleness: server.Async})
	c, err := kv.Open(context.Background(), kv.Config{Host: w.Host(), Servers: w.Listen,
		Tables: []table.Spec{{Name: "rows", Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.Sum}}}})
	must(err)
	s := device.New(c)
	rows, err := c.Table("rows")
	must(err)
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() {
			if err := traffic(dev, s, rows, uint64(i)); err != nil {
				t.Errorf("thread %d: %v", i, err)
			}
		})
	}
	all.Wait()
	text, err := c.StatsJSON(0)
	must(err)
	var said struct{ Device []device.Card }
	must(json.Unmarshal(text, &said))
	if len(said.Device) != 1 || said.Device[0].PulledBytes != 4*dim*keys*threads*rounds*2 || said.Device[0].PushedBytes != said.Device[0].PulledBytes/2 || said.Device[0].Way != "staging, pinned" {
		t.Errorf("it says of the device %+v", said.Device)
	}
	c.Close()
	if err := s.Into(device.Place{Address: 1 << 40}, 1, nil); kv.CodeOf(err) != kv.Closed {
		t.Errorf("after Close: %v", err)
	}
}

// traffic pushes a thread's rows up by what it knows and pulls them, in both ways.
func traffic(dev *cuda.Device, s *device.Staging, rows *kv.Table, thread uint64) (err error) {
	const n = dim * keys
	at, err := dev.Alloc(4 * n)
	if err != nil {
		return err
	}
	host, err := dev.HostAlloc(4 * n)
	if err != nil {
		return err
	}
	over, err := dev.NewEvent(false)
	if err != nil {
		return err
	}
	names := make([]uint64, keys)
	for i := range names {
		names[i] = thread<<32 | uint64(i*i)
	}
	place := device.Place{Address: uint64(at), Stream: thread % 3} // the default stream, by its names
	floats := mem.Float32s(host)
	same := func(want float32) error {
		if err := dev.CopyOut(host, at, place.Stream, over); err != nil {
			return err
		}
		if err := over.Wait(); err != nil {
			return err
		}
		for i, x := range floats {
			if x != want*float32(i%5) {
				return fmt.Errorf("float %d is %v", i, x)
			}
		}
		return nil
	}
	for round := range rounds {
		for i := range floats {
			floats[i] = float32(i % 5)
		}
		if err := dev.CopyIn(at, host, place.Stream, over); err != nil {
			return err
		}
		err := s.From(place, n, 0, func(m []float32) error { return rows.Push(names, m, kv.Options{}) })
		if err != nil {
			return err
		}
		if err := s.Into(place, n, func(m []float32) error { return rows.Pull(names, m, kv.Options{}) }); err != nil {
			return err
		}
		if err := same(float32(round + 1)); err != nil {
			return err
		}
		r, err := s.IntoAsync(place, n, nil, func(m []float32, notify func(error)) (*kv.Request, error) {
			return rows.PullAsync(names, m, nil, kv.Options{}, notify)
		})
		if err != nil {
			return err
		}
		<-r.Done()
		if err := r.Err(); err != nil {
			return err
		}
		before := bytes.Clone(host)
		if err := same(float32(round + 1)); err != nil || !bytes.Equal(before, host) {
			return fmt.Errorf("pulled again: %v", err)
		}
	}
	if err := over.Close(); err != nil {
		return err
	}
	if err := dev.HostFree(host); err != nil {
		return err
	}
	return dev.Free(at)
}
