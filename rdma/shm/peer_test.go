package shm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

const (
	peerEnv    = "PSRT_SHM_TEST_PEER"
	peerInside = "inside" // it stays inside an access of the tester's memory
)

// runPeer is the other process of the tests below: this binary, started
// again. It prints its address and its region, reads the tester's address,
// answers every arrival with one, and lives until it is killed.
func runPeer() bool {
	if os.Getenv(peerEnv) == "" {
		return false
	}
	if err := peerMain(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	return true
}

func peerMain() error {
	d, err := New(Config{Purpose: "peer"})
	if err != nil {
		return err
	}
	a, err := mem.New(mem.Config{Size: 1 << 20, Node: -1, Purpose: "peer", Share: true})
	if err != nil {
		return err
	}
	r, err := d.Register(a, rdma.AccessAll, "peer")
	if err != nil {
		return err
	}
	q, err := d.NewQueue(64)
	if err != nil {
		return err
	}
	ep, err := d.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 16, RecvDepth: 16, Peer: "tester"})
	if err != nil {
		return err
	}
	for i := range uint64(8) {
		ep.PostRecv([]rdma.Recv{{ID: i}})
	}
	fmt.Printf("%x %d %d\n", ep.Address(), r.Remote().Key, r.Remote().Len)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	address, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	if err := ep.Connect(address, time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if os.Getenv(peerEnv) == peerInside {
		ep.(*Endpoint).beginAccess()
		time.Sleep(2 * time.Minute)
	}
	var cs [8]rdma.Completion
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		q.Wait(time.Now().Add(time.Second))
		for _, c := range cs[:q.Poll(cs[:])] {
			if c.Status != rdma.StatusOK {
				return c.Err
			}
			ep.PostRecv([]rdma.Recv{{ID: c.ID}})
			ep.Post([]rdma.WR{{Op: rdma.OpWriteImm, Imm: c.Imm + 1}})
		}
	}
	return nil
}

// startPeer gives a side connected to another process.
func startPeer(t *testing.T, timeout time.Duration) (*side, *os.Process, rdma.RemoteRange) {
	t.Helper()
	return startPeerAs(t, "1", timeout)
}

func startPeerAs(t *testing.T, how string, timeout time.Duration) (*side, *os.Process, rdma.RemoteRange) {
	t.Helper()
	s := newSide(t, Config{}, timeout, rdma.AccessAll)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+how)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var text string
	var r rdma.RemoteRange
	if _, err := fmt.Fscan(out, &text, &r.Key, &r.Len); err != nil {
		t.Fatal("peer's greeting:", text, err)
	}
	address, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(in, "%x\n", s.ep.Address())
	if err := s.ep.Connect(address, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return s, cmd.Process, r
}

func TestTwoProcesses(t *testing.T) {
	s, _, r := startPeer(t, 0)
	for i := range uint32(100) {
		s.recv(rdma.Recv{ID: uint64(i)})
		s.b[0] = byte(i)
		s.post(rdma.WR{Op: rdma.OpWriteImm, Imm: i, Local: s.b[:4096], Remote: r.Slice(uint64(i)*8, 4096)})
		if c := s.want(uint64(i), rdma.OpRecvImm, rdma.StatusOK); c.Imm != i+1 {
			t.Fatalf("answer %d to %d", c.Imm, i)
		}
	}
	m, err := s.ep.Map(r)
	if err != nil {
		t.Fatal(err)
	}
	if m[99*8] != 99 {
		t.Errorf("the peer's memory has %d, want 99", m[99*8])
	}
}

func TestKilledPeer(t *testing.T) {
	s, p, r := startPeer(t, 10*time.Minute) // not by this, which would be too late for want
	s.recv(rdma.Recv{ID: 1}, rdma.Recv{ID: 2})
	m, err := s.ep.Map(r)
	if err != nil {
		t.Fatal(err)
	}
	m[0] = 5
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	s.want(1, rdma.OpRecv, rdma.StatusPeerGone)
	s.want(2, rdma.OpRecv, rdma.StatusFlushed)
	if m[0] != 5 {
		t.Error("the mapping went with the peer")
	}
}

// stop stops a process and returns when it no longer runs: a signal takes its
// time to arrive.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stat, []byte(") T ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is not stopped a minute after SIGSTOP: %s", p.Pid, stat)
		}
	}
}

func TestStoppedPeer(t *testing.T) {
	s, p, r := startPeer(t, 100*time.Millisecond)
	stop(t, p)
	// The region was never used: its owner must be asked, and cannot answer.
	s.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Local: s.b[:8], Remote: r.Slice(0, 8)},
		rdma.WR{ID: 2, Op: rdma.OpWriteImm})
	s.want(1, rdma.OpWrite, rdma.StatusRetryExceeded)
	s.want(2, rdma.OpWriteImm, rdma.StatusFlushed)
	// Closing must not wait for a process that does not run.
	start := time.Now()
	if err := s.d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 30*fenceTime {
		t.Errorf("close took %v", took)
	}
}

// A peer that is killed inside an access, when this side is closing already and listens to
// its socket no more, is not taken for one that goes on some day; one that is stopped is.
func TestKilledInside(t *testing.T) {
	s, p, _ := startPeerAs(t, peerInside, 0)
	l := s.ep.(*Endpoint).link.Load()
	within := time.Now().Add(time.Minute)
	until := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			if time.Now().After(within) {
				t.Fatal("in a minute the peer is not " + what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("inside", func() bool { return l.peer.access.Load()%2 == 1 })
	stop(t, p)
	if l.fence(time.Now().Add(50 * time.Millisecond)) {
		t.Fatal("a peer that is stopped inside is said to be outside")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	until("gone", l.gone.Load)
	l.gone.Store(false) // as where Close came first
	if !l.fence(time.Now().Add(50 * time.Millisecond)) {
		t.Error("a peer that was killed inside is said to be there still")
	}
}
