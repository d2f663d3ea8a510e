//go:build cgo

package verbstest

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/rdma/feature"
	"psrt/rdma/invariant"
	"psrt/rdma/mem"
	"psrt/sched/kv"
	"psrt/sched/kv/device"
	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

const dim, keys, dense, floats = 4, 3000, 5000, dim * keys

// card is a fake GPU with memory of whole pages that is registered, a stream, and a trainer.
type card struct {
	t      *testing.T
	dev    *cuda.Device
	gpus   *device.Staging
	c      *kv.Client
	rows   *kv.Table
	at     device.Place
	host   []byte // what the memory is to the fake
	pinned []byte // what is copied from and to it
	over   *cuda.Event
	keys   []uint64
}

func (x *card) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func newCard(t *testing.T, staleness int) *card {
	t.Helper()
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	t.Setenv("PSRT_FAKE_CUDA_RDMA", "flush")
	library := cudatest.Library(t)
	t.Setenv(cuda.Variable, library)
	x := &card{t: t}
	driver, err := cuda.Load(library)
	x.must(err)
	x.dev, err = driver.Open(0)
	x.must(err)
	w := kvtest.New(t, kvtest.Shape{Transport: "verbs", Servers: 1, Lanes: 2, Workers: 1, Staleness: staleness, Dense: dense})
	x.c, err = kv.Open(t.Context(), kv.Config{Host: w.Host(), Servers: w.Listen,
		Tables: []table.Spec{{Name: "rows", Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.Sum}}}})
	x.must(err)
	x.gpus = device.New(x.c)
	x.rows, err = x.c.Table("rows")
	x.must(err)
	page := uint64(os.Getpagesize())
	bytes := (4*floats + page - 1) / page * page
	p, err := x.dev.Alloc(int(bytes + page))
	x.must(err)
	x.at.Address = (uint64(p) + page - 1) / page * page
	x.host = hostOf(x.at.Address, int(bytes))
	stream, err := x.dev.NewStream()
	x.must(err)
	x.at.Stream = handle(stream)
	x.pinned, err = x.dev.HostAlloc(4 * floats)
	x.must(err)
	x.over, err = x.dev.NewEvent(false)
	x.must(err)
	names := make([]uint64, keys)
	for i := range names {
		names[i] = uint64(i) * 7919
	}
	x.keys = make([]uint64, keys)
	n, err := x.rows.Plan(names, x.keys, nil)
	x.must(err)
	x.keys = x.keys[:n]
	x.must(x.gpus.Register(x.at.Address, bytes))
	t.Cleanup(func() {
		x.c.Close()
		x.must(errors.Join(stream.Close(), x.over.Close(), x.dev.HostFree(x.pinned), x.dev.Free(p), x.dev.Close()))
	})
	return x
}

// said is what the client says of the card.
func (x *card) said() device.Card {
	x.t.Helper()
	var all struct{ Device []device.Card }
	text, err := x.c.StatsJSON(0)
	x.must(err)
	x.must(json.Unmarshal(text, &all))
	if len(all.Device) != 1 || all.Device[0].Direct == nil {
		x.t.Fatalf("it says of the devices %s", text)
	}
	return all.Device[0]
}

// put has floats on the card when the stream comes to them, which is late.
func (x *card) put(first float32) {
	x.t.Helper()
	for i := range mem.Float32s(x.pinned) {
		mem.Float32s(x.pinned)[i] = first + float32(i%7)
	}
	x.must(x.dev.CopyIn(cuda.Ptr(x.at.Address), x.pinned, x.at.Stream, x.over))
}

// look is what is on the card when the stream is done.
func (x *card) look() []float32 {
	x.t.Helper()
	x.must(x.dev.CopyOut(x.pinned, cuda.Ptr(x.at.Address), x.at.Stream, x.over))
	x.must(x.over.Wait())
	return mem.Float32s(x.pinned)
}

// alone has nobody but a network card reach the memory while f runs.
func (x *card) alone(f func() error) {
	x.t.Helper()
	x.must(unix.Mprotect(x.host, unix.PROT_NONE))
	err := f()
	x.must(errors.Join(err, unix.Mprotect(x.host, unix.PROT_READ|unix.PROT_WRITE)))
}

func (x *card) pull(names []uint64) error {
	return x.gpus.Into(x.at, dim*len(names), 0, func(m []float32) error { return x.rows.Pull(names, m, kv.Options{}) })
}

func (x *card) push(names []uint64) error {
	return x.gpus.From(x.at, dim*len(names), 0, func(m []float32) error { return x.rows.Push(names, m, kv.Options{}) })
}

// holds checks that the servers' rows are times x what put has put with first.
func (x *card) holds(got []float32, first, times float32) {
	x.t.Helper()
	for i, v := range got[:dim*len(x.keys)] {
		if want := times * (first + float32(i%7)); v != want {
			x.t.Fatalf("float %d is %v, want %v", i, v, want)
		}
	}
}

// TestDirect: rows, gradients and the dense vector go between servers and a GPU's memory
// by the network card alone; calls see what is on the stream, and where the card cannot
// carry them out they go through staging.
func TestDirect(t *testing.T) {
	t.Setenv("PSRT_FAKE_CUDA_DMABUF", "1") // which soft-RoCE refuses
	x := newCard(t, server.Async)
	if d := x.said().Direct; d.Peermem != 1 || d.DMABuf != 0 || d.Staging != 0 {
		t.Fatalf("it says of the memory %+v", d)
	}
	x.put(1)
	x.must(x.push(x.keys)) // what the stream has yet to bring
	x.put(1)
	x.look()
	x.alone(func() error { return x.push(x.keys) })
	got := make([]float32, floats)
	x.must(x.rows.Pull(x.keys, got[:dim*len(x.keys)], kv.Options{}))
	x.holds(got, 1, 2)

	x.put(5) // the stream writes it before the pull, not after
	x.must(x.pull(x.keys))
	x.holds(x.look(), 1, 2)
	x.put(5)
	x.look()
	x.alone(func() error { return x.pull(x.keys) })
	x.holds(x.look(), 1, 2)

	x.put(5)
	x.look()
	x.alone(func() error {
		r, err := x.gpus.IntoAsync(x.at, dim*len(x.keys), 0, nil, func(m []float32, notify func(error)) (*kv.Request, error) {
			return x.rows.PullAsync(x.keys, m, nil, kv.Options{}, notify)
		})
		if err != nil {
			return err
		}
		<-r.Done()
		return r.Err()
	})
	x.holds(x.look(), 1, 2)

	x.put(1)
	x.look()
	var ticket kv.Ticket
	x.alone(func() error {
		return x.gpus.Into(x.at, dim*len(x.keys), 0, func(m []float32) (err error) {
			ticket, err = x.rows.PullTicket(x.keys, m, kv.Options{})
			return err
		})
	})
	x.put(1)
	x.look()
	x.alone(func() error {
		return x.gpus.From(x.at, dim*len(x.keys), 0, func(m []float32) error {
			return x.rows.PushTicket(ticket, len(x.keys), m, kv.Options{})
		})
	})
	x.must(x.rows.Pull(x.keys, got[:dim*len(x.keys)], kv.Options{}))
	x.holds(got, 1, 3)

	one := make([]uint64, 1) // so little that a client sends it along with its request, elsewhere
	_, err := x.rows.Plan([]uint64{1}, one, nil)
	x.must(err)
	x.put(1)
	x.look()
	x.alone(func() error { return x.push(one) })
	row := make([]float32, dim)
	x.must(x.rows.Pull(one, row, kv.Options{}))
	if row[0] != 1 || row[dim-1] != dim {
		t.Errorf("one row is %v", row)
	}

	before := x.said()
	if n := uint64(4 * dim * len(x.keys)); before.Direct.PulledBytes != 4*n || before.Direct.PushedBytes != 3*n+4*dim || before.PulledBytes != 4*n || before.StagingBytes != 0 || before.Direct.Why != "" {
		t.Errorf("it says of the device %+v, %+v", before, before.Direct)
	}
	x.dense()
	var row2 [2 * dim]float32
	few := []uint64{x.keys[1], x.keys[0], x.keys[1]} // in no order of a plan
	x.must(x.pull(few))
	if v := x.look(); v[0] != got[dim] || v[dim] != got[0] || v[2*dim] != got[dim] {
		t.Errorf("rows out of order: %v, of %v", v[:3*dim], got[:2*dim])
	}
	after := x.said()
	if after.Direct.PulledBytes != before.Direct.PulledBytes+4*dense || after.StagingBytes == 0 || !strings.Contains(after.Direct.Why, "Plan") {
		t.Errorf("after a pull in another order it says %+v, %+v", after, after.Direct)
	}
	x.must(x.gpus.Into(x.at, dim*len(few), 0, func(m []float32) (err error) {
		ticket, err = x.rows.PullTicket(few, m, kv.Options{})
		return err
	}))
	x.put(1)
	x.must(x.gpus.From(x.at, dim*len(few), 0, func(m []float32) error { // the card cannot, and the ticket is good for staging
		return x.rows.PushTicket(ticket, len(few), m, kv.Options{})
	}))
	x.must(x.rows.Pull(few[:2], row2[:], kv.Options{}))
	for i := range dim {
		at := func(row int) float32 { return 1 + float32((row*dim+i)%7) } // what was put
		if row2[i] != got[dim+i]+at(0)+at(2) || row2[dim+i] != got[i]+at(1) {
			t.Fatalf("a push by a ticket of rows out of order: %v, before %v", row2[:], got[:2*dim])
		}
		row2[i], row2[dim+i] = -at(0)-at(2), -at(1)
	}
	x.must(x.rows.Push(few[:2], row2[:], kv.Options{})) // as before
	if err := x.c.CheckRange(x.at.Address, 8); kv.CodeOf(err) != kv.Invalid || !strings.Contains(err.Error(), "PSRT_DEVICE") {
		t.Errorf("the memory of a call that does not say it is a GPU's: %v", err)
	}
	x.must(x.gpus.Into(x.at, dim*len(x.keys), 0, func(m []float32) error {
		if is, err := x.gpus.Unregister(x.at.Address); !is || kv.CodeOf(err) != kv.Busy {
			t.Errorf("memory is taken back from a call that uses it: %v, %v", is, err)
		}
		return x.rows.Pull(x.keys, m, kv.Options{})
	}))
	after = x.said()
	if is, err := x.gpus.Unregister(x.at.Address); !is || err != nil {
		t.Fatal(is, err)
	}
	x.put(5)
	x.must(x.pull(x.keys))
	x.holds(x.look(), 1, 3)
	if d := x.said(); d.Direct.PulledBytes != after.Direct.PulledBytes || d.Direct.Peermem != 0 {
		t.Errorf("after the memory was taken back it says %+v, %+v", d, d.Direct)
	}
}

// dense pulls and pushes the dense vector.
func (x *card) dense() {
	x.t.Helper()
	want := make([]float32, dense)
	x.put(1)
	x.look()
	x.alone(func() error {
		return x.gpus.From(x.at, dense, 0, func(m []float32) error { return x.c.PushDense(m, kv.Options{}) })
	})
	x.must(x.c.PullDense(want, kv.Options{}))
	if want[3] != -(1 + 3) {
		x.t.Errorf("a float of the dense vector is %v", want[3])
	}
	x.alone(func() error {
		return x.gpus.Into(x.at, dense, 0, func(m []float32) error { return x.c.PullDense(m, kv.Options{}) })
	})
	for i, v := range x.look()[:dense] {
		if v != want[i] {
			x.t.Fatalf("float %d of the dense vector is %v, want %v", i, v, want[i])
		}
	}
}

// TestUnseenFails: rows that a network card has written are not said to be there where the
// driver does not have the GPU see them.
func TestUnseenFails(t *testing.T) {
	x := newCard(t, server.Async)
	x.must(x.pull(x.keys))
	t.Setenv("PSRT_FAKE_CUDA_RDMA", "")
	if err := x.pull(x.keys); kv.CodeOf(err) != kv.Device || !strings.Contains(err.Error(), "not seen") {
		t.Errorf("a pull that is not flushed: %v", err)
	}
	if err := x.gpus.Register(x.at.Address, 4); kv.CodeOf(err) != kv.Invalid {
		t.Errorf("registered twice: %v", err)
	}
	if is, err := x.gpus.Unregister(x.at.Address); !is || err != nil {
		t.Fatal(is, err)
	}
	x.must(x.gpus.Register(x.at.Address, 4*floats))
	if d := x.said().Direct; d.Peermem != 0 || d.Staging != 1 || !strings.Contains(d.Why, "seen") {
		t.Errorf("where writes are never seen it says %+v", d)
	}
	x.must(x.pull(x.keys))
}

// TestStepped: gradients under bsp are added up at the worker, so they go through the host's
// memory; rows come straight.
func TestStepped(t *testing.T) {
	x := newCard(t, 0)
	x.put(1)
	x.must(x.push(x.keys))
	x.must(x.pull(x.keys))
	if d := x.said(); d.Direct.PushedBytes != 0 || d.PushedBytes == 0 || d.Direct.PulledBytes == 0 || !strings.Contains(d.Direct.Why, "bsp") {
		t.Errorf("it says of the device %+v, %+v", d, d.Direct)
	}
}
