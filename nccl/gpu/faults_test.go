//go:build cgo

package gpu

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
	"psrt/csrc/nccl/nccltest"
	"psrt/nccl/coll"
	"psrt/nccl/colltest"
	"psrt/nccl/ring"
	"psrt/rdma/mem"
)

// An error that comes later is told where it came, and blames that rank at the others.
func TestAsynchronousErrorFails(t *testing.T) {
	opt := fakes(t)
	t.Setenv("PSRT_FAKE_NCCL_FAIL", "1:3")
	_, groups := joined(t, 3, opt)
	everyone(3, func(i int) {
		err := colltest.Counting(groups[i], 5, patience)
		var failed *nccl.Error
		var blamed *coll.RankError
		switch {
		case i == 1 && (!errors.As(err, &failed) || failed.Result != nccl.RemoteError || failed.Rank != 1):
			t.Errorf("rank 1: %v, want what NCCL says", err)
		case i != 1 && (!errors.As(err, &blamed) || blamed.Rank != 1 || blamed.Fault != coll.Aborted || !strings.Contains(err.Error(), "remote process exited")):
			t.Errorf("rank %d: %v, want rank 1 blamed", i, err)
		}
	})
}

// Work that never ends is given up when the call's time is over, also where results come to
// memory that cannot be pinned: a copy there waits for what is before it.
func TestStalledWorkFails(t *testing.T) {
	for name, pinned := range map[string]string{"pinned": "1000000000", "not pinned": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PSRT_FAKE_CUDA_PINNED", pinned)
			stalls(t)
		})
	}
}

func stalls(t *testing.T) {
	opt := fakes(t)
	t.Setenv("PSRT_FAKE_NCCL_STALL", "2:2")
	_, groups := joined(t, 3, opt)
	everyone(3, func(i int) {
		err := colltest.Counting(groups[i], 5, time.Second)
		var blamed *coll.RankError // by who was first, or where a rank did not even come in time
		if err == nil || !errors.As(err, &blamed) && !strings.Contains(err.Error(), "NCCL has not ended in the call's time") {
			t.Errorf("rank %d: %v", i, err)
		}
	})
}

// What a rank lacks is said alike by all, whose other group stays whole.
func TestUnfitFails(t *testing.T) {
	fit := fakes(t)
	older := nccltest.Build(t, "-DVERSION=21805")
	lacks := nccltest.Build(t, "-DWITHOUT_P2P")
	for want, bad := range map[string]Options{
		"rank 1: nccl: not supported on this machine: " + lacks + ": has no ncclSend": {NCCL: lacks},
		"rank 1: nccl: not supported on this machine: none.so":                        {NCCL: "none.so"},
		"rank 1: its NCCL is 2.18.5 and rank 0's 2.27.3":                              {NCCL: older},
		"rank 1: nccl: rank 1: a call that was under way: invalid usage":              {Machine: "elsewhere"}, // so that it takes the same card
	} {
		t.Run(want, func(t *testing.T) {
			all := []*process{newProcess(t), newProcess(t)}
			over := controls(t, all, 1)
			groups, errs := joins(t, over, func(rank int) Options {
				opt := fit
				if rank == 1 {
					if bad.NCCL != "" {
						opt.NCCL = bad.NCCL
					}
					if bad.Machine != "" {
						opt.Machine = bad.Machine
					}
				}
				return opt
			})
			everyone(2, func(i int) {
				said := want
				if bad.Machine != "" {
					said = "invalid usage (5): Duplicate GPU detected" // which of them is told first may be either
				}
				if groups[i] != nil || !errors.Is(errs[i], ErrUnfit) || !strings.Contains(errs[i].Error(), said) {
					t.Errorf("rank %d: %v, want %q", i, errs[i], said)
				}
				if err := errors.Join(over[i].Do(coll.Call{Kind: coll.Barrier}), over[i].Close()); err != nil {
					t.Errorf("rank %d: the control: %v", i, err)
				}
			})
		})
	}
}

func TestOptionsFail(t *testing.T) {
	all := []*process{newProcess(t)}
	over := controls(t, all, 1)
	for _, opt := range []Options{{Timeout: -1}, {Order: []coll.Merge{{Dst: 1}}}} {
		if _, err := Join(t.Context(), over[0], opt); err == nil {
			t.Errorf("%+v is taken", opt)
		}
	}
	if err := over[0].Close(); err != nil {
		t.Error(err)
	}
}

// A card without room refuses memory, and the group stays whole.
func TestNoRoomFails(t *testing.T) {
	opt := fakes(t)
	_, groups := joined(t, 1, opt)
	a, err := mem.New(mem.Config{Size: 2 << 30, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := groups[0].Register(a, "too much"); !cuda.IsOutOfMemory(err) || !strings.Contains(err.Error(), "too much") {
		t.Errorf("2 GiB on a card of 1 GiB: %v", err)
	}
	if err := colltest.Counting(groups[0], 2, patience); err != nil {
		t.Error(err)
	}
}

// A library of before 2.14 or 2.19 does without what it lacks.
func TestOldLibrary(t *testing.T) {
	opt := fakes(t)
	opt.NCCL = nccltest.Build(t, "-DVERSION=2708", "-DWITHOUT_CONFIG", "-DWITHOUT_REGISTER")
	_, groups := joined(t, 3, opt)
	if info := groups[0].(*both).Info(); info.Version != "2.7.8" || info.Registered || !strings.Contains(info.Card, "fake device 0") {
		t.Errorf("%+v", info)
	}
	everyone(3, func(i int) {
		if err := colltest.Counting(groups[i], 3, patience); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	})
}

// TestRegistrationFails: where NCCL refuses to know memory at one rank, a caller's or its
// own, all ranks do without, and nothing is mixed: the fake would refuse the calls.
func TestRegistrationFails(t *testing.T) {
	opt := fakes(t)
	for name, refuse := range map[string]string{"the caller's": "1:0", "the first of its own": "1:1", "a larger one": "1:2"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PSRT_FAKE_NCCL_REFUSE", refuse)
			_, groups := joined(t, 3, opt)
			everyone(3, func(i int) {
				if err := ordered(groups[i].(*both), false); err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			})
		})
	}
}

// ordered makes reductions in the group's order, of more and more numbers, and closes the
// group, whose memory NCCL knows then or not.
func ordered(g *both, known bool) error {
	const n = 1 << 10
	a, err := mem.New(mem.Config{Size: 8 * n, Node: -1, Purpose: "test", Share: true})
	if err != nil {
		return err
	}
	m, err := g.Register(a, "test")
	if err != nil {
		return errors.Join(err, a.Close())
	}
	send, recv := a.Bytes()[:4*n], a.Bytes()[4*n:]
	for at := 0; at < 4*n; at += 4 {
		binary.LittleEndian.PutUint32(send[at:], math.Float32bits(float32(at)))
	}
	for bytes := n; bytes <= 4*n; bytes *= 2 {
		clear(recv)
		err = errors.Join(err, g.Do(coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: send[:bytes], Recv: recv[:bytes], Within: patience}))
		for at := 0; at < bytes && err == nil; at += 4 {
			if got, want := math.Float32frombits(binary.LittleEndian.Uint32(recv[at:])), float32(g.Size()*at); got != want {
				err = fmt.Errorf("element %d of %d is %v, want %v", at/4, bytes/4, got, want)
			}
		}
	}
	if is := g.Info().Registered; is != known {
		err = errors.Join(err, fmt.Errorf("NCCL knows memory: %v, want %v", is, known))
	}
	// What others may still write into goes when the group has.
	return errors.Join(err, g.Close(), m.Close(), a.Close())
}

// The variables of a test that is a rank in a process of its own.
const (
	childVariable = "PSRT_GPU_TEST_CHILD"
	peersVariable = "PSRT_GPU_TEST_PEERS"
)

// A process that dies while the cards work is named by the others, which go on in a group
// without it.
func TestKilledInsideACallFails(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		child(t)
		return
	}
	driver, opt := builtFakes(t)
	all := []*process{newProcess(t), newProcess(t)}
	c := exec.Command(os.Args[0], "-test.run=^TestKilledInsideACallFails$")
	c.Env = append(os.Environ(), childVariable+"=1", peersVariable+"="+all[0].member.Addr()+","+all[1].member.Addr(),
		cuda.Variable+"="+driver, nccl.Variable+"="+opt.NCCL, "PSRT_FAKE_NCCL_KILL=2:3")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	addrs := []string{all[0].member.Addr(), all[1].member.Addr(), ""}
	for addrs[2] == "" && lines.Scan() {
		addrs[2] = strings.TrimPrefix(lines.Text(), "at ")
	}
	exited := make(chan error, 1)
	go func() {
		for lines.Scan() {
		}
		exited <- c.Wait()
	}()
	everyone(2, func(i int) {
		err := rank(t.Context(), all[i].member, i, addrs, opt)
		var blamed *coll.RankError
		if !errors.As(err, &blamed) || blamed.Rank != 2 || blamed.Fault != coll.Gone {
			t.Errorf("rank %d: %v, want rank 2 gone", i, err)
		}
	})
	if err := <-exited; err == nil || !strings.Contains(err.Error(), "exit status 9") {
		t.Errorf("the child: %v", err)
	}
	over := controls(t, all, 2)
	groups, errs := joins(t, over, func(int) Options { return opt })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	everyone(2, func(i int) {
		if err := colltest.Counting(&both{groups[i], over[i]}, 3, patience); err != nil {
			t.Errorf("rank %d of the survivors: %v", i, err)
		}
	})
}

// rank is one of the three.
func rank(ctx context.Context, m *ring.Member, i int, addrs []string, opt Options) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	over, err := m.Join(ctx, ring.Place{Rank: i, Size: len(addrs), Epoch: 1}, func(_ context.Context, rank int) (string, error) { return addrs[rank], nil })
	if err != nil {
		return err
	}
	g, err := Join(ctx, over, opt)
	if err != nil {
		return errors.Join(err, over.Close())
	}
	return colltest.Counting(&both{g, over}, 1<<30, patience)
}

func child(t *testing.T) {
	p := newProcess(t)
	fmt.Println("at " + p.member.Addr())
	addrs := append(strings.Split(os.Getenv(peersVariable), ","), p.member.Addr())
	t.Errorf("the killed one lives: %v", rank(t.Context(), p.member, 2, addrs, Options{Timeout: patience, Machine: "here"}))
}

// TestCloseInOrder: a group that nothing has happened to ends its communicator in order:
// what it gave to streams is over, and NCCL is not told to drop it.
func TestCloseInOrder(t *testing.T) {
	opt := fakes(t)
	trace := filepath.Join(t.TempDir(), "trace")
	t.Setenv("PSRT_FAKE_NCCL_TRACE", trace)
	_, groups := joined(t, 3, opt) // of three it has memory of its own, too
	everyone(3, func(i int) {
		if err := ordered(groups[i].(*both), true); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	})
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(strings.ReplaceAll(string(text), " ", "-"))
	slices.Sort(lines)
	if got, want := strings.Join(lines, " "), "destroy-0 destroy-1 destroy-2 finalize-0 finalize-1 finalize-2"; got != want {
		t.Errorf("closing does %q, want %q", got, want)
	}
}

// TestHangingCopyFails: where the card does not end its copies though NCCL's work was aborted, the
// call's error says that it may still write, and no memory is given back until it has.
func TestHangingCopyFails(t *testing.T) {
	hangs(t, "PSRT_FAKE_CUDA_HANG", "has not ended its copies")
}

// TestHangingAbortFails: the same where NCCL's abort does not come back.
func TestHangingAbortFails(t *testing.T) {
	t.Setenv("PSRT_FAKE_NCCL_STALL", "0:0")
	hangs(t, "PSRT_FAKE_NCCL_HANG", "ncclCommAbort on GPU 0, fake device 0")
}

// hangs has a call fail while the file is there that the variable names.
func hangs(t *testing.T, variable, want string) {
	opt := fakes(t)
	hang := filepath.Join(t.TempDir(), "hang")
	t.Setenv(variable, hang)
	p := newProcess(t)
	over := controls(t, []*process{p}, 1)
	groups, errs := joins(t, over, func(int) Options { return opt })
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	g := groups[0]
	g.drain = 10 * time.Millisecond
	a, err := mem.New(mem.Config{Size: 8192, Node: -1, Purpose: "test", Share: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Register(a, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	call := coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: a.Bytes()[:4096], Recv: a.Bytes()[4096:], Within: 2 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- g.Do(call) }()
	select {
	case err := <-failed:
		if !errors.Is(err, coll.ErrWrites) || !strings.Contains(err.Error(), want) {
			t.Errorf("the call: %v, want %q", err, want)
		}
	case <-time.After(patience):
		_ = os.Remove(hang) // which would keep the process
		t.Fatalf("the call has not failed in %v", patience)
	}
	if err := coll.GiveBack(m, a); !errors.Is(err, coll.ErrWrites) {
		t.Errorf("its memory, meanwhile: %v", err)
	}
	clear(a.Bytes()) // which is still there
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if err = coll.GiveBack(m, a); !errors.Is(err, coll.ErrWrites) || time.Now().After(end) {
			break
		}
	}
	if err := errors.Join(err, g.Close(), over[0].Close()); err != nil {
		t.Error(err)
	}
}
