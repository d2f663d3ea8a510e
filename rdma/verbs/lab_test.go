package verbs_test

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

func region(t *testing.T, d rdma.Domain, n int) rdma.Region {
	t.Helper()
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "verbs test", Huge: "never"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	r, err := d.Register(a, rdma.AccessAll, "verbs test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func queueOf(t *testing.T, d rdma.Domain) rdma.Queue {
	t.Helper()
	q, err := d.NewQueue(64)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// opTimeout of the endpoints of these tests: short, for some wait until it has
// passed, and long enough for a machine that does not run for a second.
const opTimeout = 2 * time.Second

func endpointOn(t *testing.T, d rdma.Domain, q rdma.Queue, shared bool) rdma.Endpoint {
	t.Helper()
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 8, RecvDepth: 4, Peer: "bob", OpTimeout: opTimeout, SharedRecv: shared})
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

func join(t *testing.T, a, b rdma.Endpoint) {
	t.Helper()
	deadline := time.Now().Add(patience)
	other := make(chan error, 1)
	go func() { other <- b.Connect(a.Address(), deadline) }()
	if err := errors.Join(a.Connect(b.Address(), deadline), <-other); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, q rdma.Queue) rdma.Completion {
	t.Helper()
	var cs [1]rdma.Completion
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if q.Poll(cs[:]) == 1 {
			return cs[0]
		}
		_ = q.Wait(deadline)
	}
	t.Fatal("no completion")
	return cs[0]
}

func pairOfDomains(t *testing.T) (a, b rdma.Domain) {
	t.Helper()
	names := devices(t)
	a, b = open(t, names[0]), open(t, names[1])
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return a, b
}

// TestPoolOverrun: a peer that sends more than its credits takes entries of a
// shared receive queue that are others'. Its own endpoint breaks, theirs go on.
func TestPoolOverrun(t *testing.T) {
	da, db := pairOfDomains(t)
	qa, qb := queueOf(t, da), queueOf(t, db)
	var ours, theirs [2]rdma.Endpoint
	for i := range ours {
		ours[i], theirs[i] = endpointOn(t, da, qa, false), endpointOn(t, db, qb, true)
		join(t, ours[i], theirs[i])
		if n, err := theirs[i].PostRecv(make([]rdma.Recv, 4)); n != 4 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := ours[0].Post([]rdma.WR{{Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if c := next(t, qb); c.Status != rdma.StatusOK || c.Endpoint != theirs[0] {
			t.Fatalf("%+v", c)
		}
	}
	deadline := time.Now().Add(patience)
	for {
		var cs [4]rdma.Completion
		qb.Poll(cs[:])
		_, err := theirs[0].PostRecv([]rdma.Recv{{}})
		var e *rdma.Error
		if errors.As(err, &e) && e.Status == rdma.StatusRNR && e.Peer == "bob" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the endpoint that got more than it posted goes on: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := ours[1].Post([]rdma.WR{{Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}, {Op: rdma.OpWriteImm}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if c := next(t, qb); c.Status != rdma.StatusOK || c.Endpoint != theirs[1] {
			t.Fatalf("the neighbour lost a receive: %+v", c)
		}
	}
}

// TestUserMemory sends from memory that is registered on the way.
func TestUserMemory(t *testing.T) {
	names := devices(t)
	d := open(t, names[0])
	defer d.Close()
	u, err := d.UserMemory(rdma.AccessAll, 1<<20, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close(context.Background())
	user, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(user)
	q := queueOf(t, d)
	a, b := endpointOn(t, d, q, false), endpointOn(t, d, q, false)
	join(t, a, b)
	to := region(t, d, 8192)
	for i := range 3 {
		part := user[100:5100]
		for k := range part {
			part[k] = byte(i + k)
		}
		l, err := u.Lease(part)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Post([]rdma.WR{{Op: rdma.OpWrite, Signaled: true, Local: part, Remote: to.Remote().Slice(7, 5000)}}); err != nil {
			t.Fatal(err)
		}
		if c := next(t, q); c.Status != rdma.StatusOK || !bytes.Equal(part, to.Bytes()[7:5007]) {
			t.Fatalf("round %d: %+v", i, c)
		}
		l.Release()
	}
	if s := u.Stats(); s.Hits != 2 || s.Misses != 1 || s.Count != 1 {
		t.Errorf("three transfers from one buffer: %+v", s)
	}
	if busy, err := u.Forget(user); busy != 0 || err != nil {
		t.Error(busy, err)
	}
	if _, err := a.Post([]rdma.WR{{Op: rdma.OpWrite, Local: user[:1000], Remote: to.Remote().Slice(0, 1000)}}); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("forgotten memory is still registered: %v", err)
	}
}

// buffer stands for a GPU's memory that comes as a dma-buf.
type buffer struct{ rdma.Memory }

func (buffer) DMABuf() (int, int64, bool) { return 0, 0, true } // standard input is none

// TestDMABuf: a device that cannot says so in words.
func TestDMABuf(t *testing.T) {
	da, _ := pairOfDomains(t)
	a, err := mem.New(mem.Config{Size: 4096, Node: -1, Purpose: "verbs test", Huge: "never"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := da.Register(buffer{a}, rdma.AccessAll, "a GPU's rows"); err == nil {
		t.Error("standard input is registered as a dma-buf")
	} else {
		t.Log(err)
	}
}
