package verbs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// device opens the first RDMA device, or says why the rest of a test is not
// run. In the lab there is one, or the lab is broken.
func device(t *testing.T) *Context {
	t.Helper()
	names, err := Devices()
	if os.Getenv("PSRT_LAB") == "rxe" && (err != nil || len(names) == 0) {
		t.Fatalf("the lab rxe must offer a device: %v, %v", names, err)
	}
	if errors.Is(err, ErrUnavailable) || err == nil && len(names) == 0 {
		t.Logf("not run: no RDMA device here (%v)", err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestLoad(t *testing.T) {
	if err := Load(); err != nil && !errors.Is(err, ErrUnavailable) {
		t.Errorf("Load: %v is outside the set", err)
	}
	_, err := Open("no-such-device")
	if err == nil || !errors.Is(err, ErrUnavailable) && !strings.Contains(err.Error(), "no-such-device") {
		t.Errorf("Open of a device that is not there: %v", err)
	}
}

func TestFailed(t *testing.T) {
	if err := failed("x", 3); err != nil {
		t.Errorf("a count is taken for a failure: %v", err)
	}
	if err := failed("register", -int(syscall.ENOMEM)); !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "register") {
		t.Errorf("got %v", err)
	}
}

// routable finds an active port and, on RoCE, an IPv4 GID of version 2.
func routable(t *testing.T, c *Context) (port int, attr PortAttr, index int, gid GID) {
	t.Helper()
	dev, err := c.Attr()
	if err != nil {
		t.Fatal(err)
	}
	for port = 1; port <= int(dev.Ports); port++ {
		if attr, err = c.Port(port); err != nil {
			t.Fatal(err)
		}
		for index = 0; attr.State == PortActive && index < int(attr.GIDs); index++ {
			gid, err = c.GID(port, index)
			if err != nil {
				continue // empty entries
			}
			if attr.LinkLayer != LinkEthernet || gid.Type == GIDTypeRoCEv2 && gid.Raw[10] == 0xff && gid.Raw[11] == 0xff {
				all, err := c.GIDs(port)
				if gid.Index = uint32(index); err != nil || !slices.Contains(all, gid) {
					t.Errorf("GID %d is %+v, all at once are %+v: %v", index, gid, all, err)
				}
				return port, attr, index, gid
			}
		}
	}
	t.Fatal("no active port with an IPv4 RoCE v2 GID")
	return
}

// end is a queue pair with the memory it lends.
type end struct {
	cq  *CQ
	qp  *QP
	mr  MR
	buf []byte
	at  uint64
}

func newEnd(t *testing.T, c *Context, port int) *end {
	t.Helper()
	e := &end{}
	var err error
	if e.buf, err = syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		t.Fatal(err)
	}
	e.at = address(e.buf)
	if e.mr, err = c.Register(e.at, uint64(len(e.buf)), AccessRemoteRead|AccessRemoteWrite|AccessRemoteAtomic); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = c.NewCQ(64); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = c.NewQP(e.cq, nil, 16, 16, 64); err != nil {
		t.Fatal(err)
	}
	if err = e.qp.Init(port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // reverse order
		for _, err := range []error{e.qp.Close(), e.cq.Close(), e.mr.Close(), syscall.Munmap(e.buf)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// patience bounds the wait for what must happen, on a machine ten times slower
// than a laptop.
const patience = time.Minute

// next waits through the completion channel.
func (e *end) next(t *testing.T) Done {
	t.Helper()
	var d [1]Done
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := e.cq.Arm(); err != nil {
			t.Fatal(err)
		}
		if n, err := e.cq.Poll(d[:]); err != nil {
			t.Fatal(err)
		} else if n == 1 {
			return d[0]
		}
		if err := e.cq.Wait(-1, time.Until(deadline)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no completion within %s", patience)
	return Done{}
}

// TestLoopback joins two queue pairs of one device and moves bytes by every
// operation, then provokes a refusal.
func TestLoopback(t *testing.T) {
	c := device(t)
	if c == nil {
		return
	}
	port, attr, index, gid := routable(t, c)
	a, b := newEnd(t, c, port), newEnd(t, c, port)
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		path := &Path{DGID: gid.Raw, DestQPN: p[1].qp.Num, DestPSN: 7, PSN: 7, Port: uint32(port), GIDIndex: uint32(index),
			Global: 1, DLID: attr.LID, MTU: attr.ActiveMTU, HopLimit: 64, ReadsOut: 1, ReadsIn: 1, MinRNRTimer: 12, Timeout: 14, Retry: 7, RNRRetry: 6}
		err := errors.Join(p[0].qp.ToRTR(path), p[0].qp.ToRTS(path))
		if err != nil {
			t.Fatal(err)
		}
	}
	send := func(inline []byte, ss ...Send) {
		t.Helper()
		if n, err := a.qp.PostSend(ss, inline); n != len(ss) || err != nil {
			t.Fatalf("PostSend took %d of %d: %v", n, len(ss), err)
		}
	}
	want := func(e *end, id uint64, status uint32) Done {
		t.Helper()
		d := e.next(t)
		if d.ID != id || d.Status != status || d.QPN != e.qp.Num {
			t.Fatalf("completion %+v (%s), want id %d status %d", d, StatusText(d.Status), id, status)
		}
		return d
	}
	if n, err := b.qp.PostRecv([]Recv{{ID: 1}, {ID: 2, Addr: b.at + 512, Length: 64, LKey: b.mr.LKey}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	copy(a.buf, "written and told")
	send([]byte("xxinline send"),
		Send{ID: 3, Op: OpWriteImm, Imm: 0xfedcba98, Addr: a.at, Length: 16, LKey: a.mr.LKey, RemoteAddr: b.at + 64, RKey: b.mr.RKey},
		Send{ID: 4, Op: OpSend, Flags: Signaled | Inline | Offset, Addr: 2, Length: 11})
	if d := want(b, 1, StatusSuccess); d.WithImm != 1 || d.Imm != 0xfedcba98 || d.Bytes != 16 || string(b.buf[64:80]) != "written and told" {
		t.Errorf("write with immediate arrived as %+v, %q", d, b.buf[64:80])
	}
	if d := want(b, 2, StatusSuccess); d.WithImm != 0 || d.Bytes != 11 || string(b.buf[512:523]) != "inline send" {
		t.Errorf("send arrived as %+v, %q", d, b.buf[512:523])
	}
	want(a, 4, StatusSuccess) // 3 was not signaled

	b.buf[0] = 40
	atomic := Send{Flags: Signaled, Addr: a.at + 256, Length: 8, LKey: a.mr.LKey, RemoteAddr: b.at, RKey: b.mr.RKey}
	add, swap, read := atomic, atomic, atomic
	add.ID, add.Op, add.Operand = 5, OpFetchAdd, 2
	swap.ID, swap.Op, swap.Operand, swap.Swap = 6, OpCompareSwap, 42, 99
	read.ID, read.Op = 7, OpRead
	for i, s := range []Send{add, swap, read} {
		send(nil, s)
		want(a, s.ID, StatusSuccess)
		if old, now := a.buf[256], b.buf[0]; old != []byte{40, 42, 99}[i] || now != []byte{42, 99, 99}[i] {
			t.Errorf("request %d: fetched %d, there is %d", s.ID, old, now)
		}
	}

	read.ID, read.RKey, read.Flags = 8, ^b.mr.RKey, 0
	send(nil, read, Send{ID: 9, Op: OpSend})
	want(a, 8, StatusRemoteAccess) // failures complete unasked
	want(a, 9, StatusFlushed)

	// Arming repeatedly may have left a few events; without any, Wait takes its
	// whole timeout.
	for range 8 {
		start := time.Now()
		if err := a.cq.Wait(-1, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) >= 20*time.Millisecond {
			return
		}
	}
	t.Error("Wait returns at once though nothing completes")
}
