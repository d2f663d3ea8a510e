//go:build cgo

package device_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// setUp is a fake device, or, with PSRT_GPU set, this machine's, a client, and its staging.
func setUp(t *testing.T) (*cuda.Device, *kv.Client, *device.Staging, *kv.Table) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PSRT_FAKE_CUDA_FENCED", "1")
	if cudatest.Cards(t) == 0 {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	}
	driver, err := cuda.Load("")
	must(err)
	dev, err := driver.Open(0)
	must(err)
	t.Cleanup(func() { must(dev.Close()) })
	w := kvtest.New(t, kvtest.Shape{Transport: "shm", Servers: 1, Lanes: 2, Workers: 1, Staleness: server.Async})
	c, err := kv.Open(context.Background(), kv.Config{Host: w.Host(), Servers: w.Listen,
		Tables: []table.Spec{{Name: "rows", Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.Sum}}}})
	must(err)
	s := device.New(c)
	rows, err := c.Table("rows")
	must(err)
	return dev, c, s, rows
}

// TestStaging: threads that pull and push rows in a GPU's memory, each on a stream of
// its own, with a device that does all work as late as it may: no staging is used
// again too early, and all of it is given back with the client.
func TestStaging(t *testing.T) {
	dev, c, s, rows := setUp(t)
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() {
			if err := traffic(dev, s, rows, uint64(i)); err != nil {
				t.Errorf("thread %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if d := said(t, c); d.PulledBytes != 4*dim*keys*threads*rounds*2 || d.PushedBytes != d.PulledBytes/2 || d.Way != "staging, pinned" {
		t.Errorf("it says of the device %+v", d)
	}
	c.Close()
	if err := s.Into(device.Place{Address: 1 << 40}, 1, 0, nil); kv.CodeOf(err) != kv.Closed {
		t.Errorf("after Close: %v", err)
	}
}

// TestUnreached: registered memory that servers do not reach goes through staging, which is said;
// the servers of a trainer's own host share memory and use no network card.
func TestUnreached(t *testing.T) {
	t.Setenv("PSRT_FAKE_CUDA_RDMA", "ordered")
	t.Setenv("PSRT_FAKE_CUDA_DMABUF", "1")
	dev, c, s, rows := setUp(t)
	defer c.Close()
	at, err := dev.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	first := uint64(at)
	for _, wrong := range []struct {
		address, bytes uint64
		says           string
	}{{first + 1<<15, 1 << 40, "not all a GPU's memory"}, {first + 2, 8, "aligned"}, {first + 4096 - 4, 8, "overlaps"}, {first + 4096, 4096, "overlaps"}, {first, 1 << 16, "overlaps"}} {
		if wrong.says == "overlaps" {
			if err := s.Register(first+4096, 4096); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Register(wrong.address, wrong.bytes); kv.CodeOf(err) != kv.Invalid || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%d bytes at %#x: %v", wrong.bytes, wrong.address-first, err)
		}
		if is, err := s.Unregister(first + 4096); is != (wrong.says == "overlaps") || err != nil {
			t.Error(is, err)
		}
	}
	for _, part := range []uint64{first + 8192, first, first + 4096} {
		if err := s.Register(part, 4096); err != nil {
			t.Fatal(err)
		}
	}
	err = s.Into(device.Place{Address: first + 4096}, dim, 0, func(m []float32) error { return rows.Pull([]uint64{7}, m, kv.Options{}) })
	if d := said(t, c); err != nil || d.Direct == nil || d.Direct.Staging != 3 || d.Direct.Peermem+d.Direct.DMABuf != 0 || d.Direct.PulledBytes != 0 ||
		d.PulledBytes != 4*dim || !strings.Contains(d.Direct.Why, "not all servers are reached by RDMA") {
		t.Errorf("it says of the device %+v, %+v, %v", d, d.Direct, err)
	}
}

// TestStreamOfThread: a stream that each thread has its own of takes what the caller's thread gives it; an
// asynchronous pull, whose copy is another thread's, refuses it, and asks nothing of the servers.
func TestStreamOfThread(t *testing.T) {
	dev, c, s, rows := setUp(t)
	defer c.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	at, err := dev.Alloc(4 * dim)
	if err != nil {
		t.Fatal(err)
	}
	p, k := device.Place{Address: uint64(at), Stream: 2}, []uint64{7}
	_, err = s.IntoAsync(p, dim, 0, nil, func([]float32, func(error)) (*kv.Request, error) {
		t.Error("it was begun")
		return nil, errors.New("begun")
	})
	if kv.CodeOf(err) != kv.Invalid || !strings.Contains(err.Error(), "cudaStreamPerThread") {
		t.Errorf("an asynchronous pull: %v", err)
	}
	if err := rows.Push(k, []float32{1, 2, 3, 4}, kv.Options{}); err != nil {
		t.Fatal(err)
	}
	var got []float32
	err = errors.Join(s.Into(p, dim, 0, func(m []float32) error { return rows.Pull(k, m, kv.Options{}) }),
		s.From(p, dim, 0, func(m []float32) error { got = slices.Clone(m); return nil }))
	if err != nil || !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Errorf("pulled and pushed on it: %v, %v", got, err)
	}
	other := make(chan error)
	go func() { // on another thread, as this one is locked
		other <- s.From(p, dim, 50*time.Millisecond, func(m []float32) error { return nil })
	}()
	if err := <-other; err != nil {
		t.Errorf("pushed on another thread's: %v", err)
	}
}

// said is what a client says of its only device.
func said(t *testing.T, c *kv.Client) device.Card {
	t.Helper()
	var all struct{ Device []device.Card }
	text, err := c.StatsJSON(0)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all.Device) != 1 {
		t.Fatalf("it says of the devices %+v, %v", all.Device, err)
	}
	return all.Device[0]
}

// behind is more work on a stream than the fake does while short waits look at it: it does
// a piece each time. done has it do all.
func behind(t *testing.T, dev *cuda.Device, at cuda.Ptr) (stream uint64, done func()) {
	t.Helper()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		if err := s.Fill(at, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	return uint64(uintptr(s.Raw())), func() {
		e, err := dev.NewEvent(false)
		if err := errors.Join(err, s.Record(e), e.Wait(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// short is the time of a call that is to wait in vain.
const short = 20 * time.Millisecond

// TestStreamBehind: pulls whose copies a stream has not come to keep no more staging than
// is said; a further one waits as long as it may.
func TestStreamBehind(t *testing.T) {
	dev, c, s, rows := setUp(t)
	defer c.Close()
	at, err := dev.Alloc(4 * dim)
	if err != nil {
		t.Fatal(err)
	}
	stream, done := behind(t, dev, at)
	pull := func(limit time.Duration) error {
		return s.Into(device.Place{Address: uint64(at), Stream: stream}, dim, limit, func(m []float32) error { return rows.Pull([]uint64{7}, m, kv.Options{}) })
	}
	pulled := 0
	for ; pulled < 1000 && err == nil; pulled++ {
		err = pull(short)
	}
	if d := said(t, c); kv.CodeOf(err) != kv.Timeout || pulled > 100 || d.StagingBytes > int64(pulled)*64<<10 {
		t.Errorf("pull %d: %v, with %d bytes of staging", pulled, err, d.StagingBytes)
	}
	done()
	if err := pull(0); err != nil {
		t.Errorf("when the stream has come there: %v", err)
	}
}

// TestNotPinned: where a copy keeps its caller until the stream comes to it no call takes
// longer than it may, and none keeps others from ending.
func TestNotPinned(t *testing.T) {
	t.Setenv("PSRT_FAKE_CUDA_PINNED", "0")
	dev, c, s, rows := setUp(t)
	defer c.Close()
	at, err := dev.Alloc(4 * dim)
	if err != nil {
		t.Fatal(err)
	}
	stream, done := behind(t, dev, at)
	late, free := device.Place{Address: uint64(at), Stream: stream}, device.Place{Address: uint64(at)}
	err = s.From(late, dim, short, func([]float32) error { t.Error("it is pushed"); return nil })
	if kv.CodeOf(err) != kv.Timeout || !strings.Contains(err.Error(), "nothing was pushed") {
		t.Errorf("a push: %v", err)
	}
	if err := s.Into(late, dim, short, func(m []float32) error { return nil }); kv.CodeOf(err) != kv.Timeout {
		t.Errorf("a pull: %v", err)
	}
	start := func(m []float32, notify func(error)) (*kv.Request, error) {
		return rows.PullAsync([]uint64{7}, m, nil, kv.Options{}, notify)
	}
	var waiting []*device.Request
	for range 20 { // more than threads that end requests
		r, err := s.IntoAsync(late, dim, 5*time.Minute, nil, start)
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, r)
	}
	r, err := s.IntoAsync(free, dim, 0, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	if <-r.Done(); r.Err() != nil {
		t.Errorf("a pull on another stream: %v", r.Err())
	}
	done()
	for _, r := range waiting {
		if <-r.Done(); r.Err() != nil {
			t.Errorf("a pull, when the stream has come there: %v", r.Err())
		}
	}
	if d := said(t, c); !strings.HasPrefix(d.Way, "staging, not pinned: ") {
		t.Errorf("it says of the device %+v", d)
	}
}

// again is an asynchronous pull that is waited for, where the stream can have one.
func again(s *device.Staging, rows *kv.Table, place device.Place, names []uint64, n int) error {
	if place.Stream == 2 {
		return s.Into(place, n, 0, func(m []float32) error { return rows.Pull(names, m, kv.Options{}) })
	}
	r, err := s.IntoAsync(place, n, 0, nil, func(m []float32, notify func(error)) (*kv.Request, error) {
		return rows.PullAsync(names, m, nil, kv.Options{}, notify)
	})
	if err != nil {
		return err
	}
	<-r.Done()
	return r.Err()
}

// traffic pushes a thread's rows up by what it knows and pulls them, in both ways.
func traffic(dev *cuda.Device, s *device.Staging, rows *kv.Table, thread uint64) (err error) {
	const n = dim * keys
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
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
	place := device.Place{Address: uint64(at), Stream: thread % 3} // the default stream, by its names, and the thread's own
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
		if err := s.Into(place, n, 0, func(m []float32) error { return rows.Pull(names, m, kv.Options{}) }); err != nil {
			return err
		}
		if err := same(float32(round + 1)); err != nil {
			return err
		}
		if err := again(s, rows, place, names, n); err != nil {
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

// TestStreamNeverThereFails: a client whose streams never come to its copies ends all the
// same, and leaves what it has with the driver, whose calls to take it back would wait.
func TestStreamNeverThereFails(t *testing.T) {
	dev, c, s, rows := setUp(t)
	at, err := dev.Alloc(4 * dim)
	if err != nil {
		t.Fatal(err)
	}
	stream, _ := behind(t, dev, at) // which is never done: a card has the pages, the fake's copy would have nothing
	if err := s.Into(device.Place{Address: uint64(at), Stream: stream}, dim, 0, func(m []float32) error { return rows.Pull([]uint64{7}, m, kv.Options{}) }); err != nil {
		t.Fatal(err)
	}
	hang := filepath.Join(t.TempDir(), "hang")
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PSRT_FAKE_CUDA_HANG", hang)
	ended := make(chan struct{})
	go func() { c.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Error("it does not end")
	}
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
}
