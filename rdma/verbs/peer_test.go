package verbs_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/invariant"
	"psrt/rdma/mem"
	"psrt/rdma/verbs"
)

// peerEnv holds the device of a process that plays a peer: this test binary,
// started again.
const peerEnv = "PSRT_VERBS_TEST_PEER"

func TestMain(m *testing.M) {
	if device := os.Getenv(peerEnv); device != "" {
		if err := playPeer(device, os.Stdin, os.Stdout); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(invariant.Main(m))
}

// player is the peer's side. It does what it is told, a line at a time, and
// answers each with "ok …" or "error …":
//
//	endpoint N    a new endpoint with N receives posted; gives its address and the memory lent
//	connect HEX   joins it to the address
//	sum OFF LEN   the checksum of lent bytes
//	withdraw      takes the lent memory back
type player struct {
	dom *verbs.Domain
	q   rdma.Queue
	reg rdma.Region
	ep  rdma.Endpoint
}

const peerBytes = 8 << 20

func playPeer(device string, in io.Reader, out io.Writer) error {
	d, err := verbs.New(verbs.Config{Device: device})
	if err != nil {
		return err
	}
	a, err := mem.New(mem.Config{Size: peerBytes, Node: -1, Purpose: "peer", Huge: "never"})
	if err != nil {
		return err
	}
	p := &player{dom: d}
	if p.reg, err = d.Register(a, rdma.AccessAll, "peer"); err != nil {
		return err
	}
	if p.q, err = d.NewQueue(1024); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer, err := p.obey(lines.Text())
		if err != nil {
			answer = "error " + err.Error()
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) obey(line string) (string, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "endpoint":
		var receives int
		if _, err := fmt.Sscan(rest, &receives); err != nil {
			return "", err
		}
		var err error
		p.ep, err = p.dom.NewEndpoint(rdma.EndpointConfig{Queue: p.q, SendDepth: depth, RecvDepth: depth, Peer: "tester"})
		if err != nil {
			return "", err
		}
		if _, err := p.ep.PostRecv(make([]rdma.Recv, receives)); err != nil {
			return "", err
		}
		r := p.reg.Remote()
		return fmt.Sprintf("ok %x %d %d %d", p.ep.Address(), r.Key, r.Addr, r.Len), nil
	case "receive":
		var receives int
		if _, err := fmt.Sscan(rest, &receives); err != nil {
			return "", err
		}
		_, err := p.ep.PostRecv(make([]rdma.Recv, receives))
		return "ok", err
	case "connect":
		address, err := hex.DecodeString(rest)
		if err != nil {
			return "", err
		}
		return "ok", p.ep.Connect(address, time.Now().Add(patience))
	case "sum":
		var off, n int
		if _, err := fmt.Sscan(rest, &off, &n); err != nil {
			return "", err
		}
		return fmt.Sprintf("ok %d", crc32.ChecksumIEEE(p.reg.Bytes()[off:off+n])), nil
	case "withdraw":
		return "ok", p.reg.Close()
	}
	return "", fmt.Errorf("%q is no order", line)
}

// peer is such a process, from outside.
type peer struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startPeer(t testing.TB, device string) *peer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), peerEnv+"="+device)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// order sends a line and returns what follows "ok".
func (p *peer) order(format string, args ...any) string {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
	return p.answer()
}

func (p *peer) answer() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the peer's process has ended: %v", p.out.Err())
	}
	rest, ok := strings.CutPrefix(p.out.Text(), "ok")
	if !ok {
		p.t.Fatalf("the peer says: %s", p.out.Text())
	}
	return strings.TrimSpace(rest)
}

// join connects a new endpoint of h to a new one of the peer with some
// receives posted, and tells where the memory is that the peer lends.
func (p *peer) join(h *host, name string, opTimeout time.Duration, receives int) (*end, rdma.RemoteRange) {
	p.t.Helper()
	var text string
	var r rdma.RemoteRange
	answer := p.order("endpoint %d", receives)
	if _, err := fmt.Sscan(answer, &text, &r.Key, &r.Addr, &r.Len); err != nil {
		p.t.Fatalf("the peer's endpoint: %q: %v", answer, err)
	}
	address, err := hex.DecodeString(text)
	if err != nil {
		p.t.Fatal(err)
	}
	e := h.end(name, opTimeout)
	if _, err := fmt.Fprintf(p.in, "connect %x\n", e.ep.Address()); err != nil {
		p.t.Fatal(err)
	}
	if err := e.ep.Connect(address, time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	p.answer()
	return e, r
}

// kill is what the kernel does to a process out of memory: no word, no flush.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill() // it may have been killed before
	_ = p.cmd.Wait()
}

// stop stops the process and returns when it no longer runs: a signal takes
// its time to arrive.
func (p *peer) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		if bytes.Contains(stat, []byte(") T ")) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the peer is not stopped %s after SIGSTOP: %s", patience, stat)
		}
	}
}

func (p *peer) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
