package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/rdma/feature"
)

// role makes the test's program a generator, in a child.
const role = "PSRT_PROBE_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		if err := play(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play waits for a line, so that the parent can set up the child's network.
func play(r string) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	switch r {
	case "tcp":
		sent, err := generateTCP(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(sent)
	case "hold":
		return hold(in)
	case "open":
		return openAll(in)
	}
	return fmt.Errorf("no role %q", r)
}

// costLimit is what metering may take of one CPU. The promise is 3 %; but a
// program's clock goes on while an emulated machine is not run by its host, and
// once of that in a program must not fail a test of 2 s.
const costLimit = 0.1

type child struct {
	cmd   *exec.Cmd
	lines chan []byte
	to    *os.File
}

// spawn starts the test's program in a role; it dies with the test.
func spawn(t *testing.T, r string, flags uintptr) *child {
	t.Helper()
	return spawnAs(t, r, &syscall.SysProcAttr{Cloneflags: flags}, 0)
}

// spawnAs is spawn, for another user if that is not 0.
func spawnAs(t *testing.T, r string, as *syscall.SysProcAttr, user uint32) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	// By this name also a user who may not enter the folder it lies in.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"="+r)
	cmd.SysProcAttr = as
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	cmd.Stderr = os.Stderr
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = from
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	from.Close()
	c := &child{cmd: cmd, lines: make(chan []byte, 16), to: to}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- []byte(s.Text())
		}
		close(c.lines)
	}()
	t.Cleanup(func() {
		to.Close()
		cancel()
		_ = cmd.Wait() // killed
	})
	return c
}

func (c *child) say(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.to, line); err != nil {
		t.Fatal(err)
	}
}

// cable is a veth pair, its far end in a child's network namespace.
type cable struct {
	near, far string
}

func newCable(t *testing.T) *cable {
	t.Helper()
	// Names of this process's own: tests of two checkouts may run at once.
	n := &cable{near: fmt.Sprintf("pn%d", os.Getpid()), far: fmt.Sprintf("pf%d", os.Getpid())}
	ip(t, "link", "add", n.near, "type", "veth", "peer", "name", n.far)
	t.Cleanup(func() {
		// It may have gone with the child's namespace.
		_ = exec.Command("ip", "link", "del", n.near).Run()
	})
	ip(t, "address", "add", "10.79.0.1/24", "dev", n.near)
	ip(t, "link", "set", n.near, "up")
	return n
}

// start starts the workers' child at the far end.
func (n *cable) start(t *testing.T, r, port string) *child {
	t.Helper()
	c := spawn(t, r, syscall.CLONE_NEWNET)
	pid := fmt.Sprint(c.cmd.Process.Pid)
	ip(t, "link", "set", n.far, "netns", pid)
	inside := func(args ...string) {
		t.Helper()
		run(t, "nsenter", append([]string{"-t", pid, "-n", "ip"}, args...)...)
	}
	for i := range tcpWorkers {
		inside("address", "add", fmt.Sprintf("10.79.0.%d/24", 10+i), "dev", n.far)
	}
	inside("link", "set", n.far, "up")
	c.say(t, "10.79.0.1:"+port)
	return c
}

func ip(t *testing.T, args ...string) { t.Helper(); run(t, "ip", args...) }

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// asFeature says no in the way of rdma/feature, which judges skips.
func asFeature(err error) error {
	var missing *MissingError
	if !errors.As(err, &missing) {
		return err
	}
	return &feature.MissingError{
		Test:   feature.Test{Name: "metering by eBPF", Requirement: missing.What, Remedy: missing.Remedy, Lab: "rxe"},
		Detail: err.Error(),
	}
}

// hold meters by all that there is until it is killed; it says which programs
// it has loaded.
func hold(in *bufio.Reader) error {
	tcp, err := OpenTCP(TCPConfig{})
	if err != nil {
		return err
	}
	defer tcp.Close()
	roce, err := OpenRoCE(RoCEConfig{Interfaces: []string{"lo"}})
	if err != nil {
		return err
	}
	defer roce.Close()
	programs := append(tcp.programs, roce.programs...)
	usdt, err := OpenUSDT(USDTConfig{})
	if err == nil {
		defer usdt.Close()
		programs = append(programs, usdt.programs...)
	} else if !errors.Is(err, ErrMissing) { // built without cgo
		return err
	}
	var ids []uint32
	for _, p := range programs {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		ids = append(ids, uint32(id))
	}
	if err := json.NewEncoder(os.Stdout).Encode(ids); err != nil {
		return err
	}
	_, err = in.ReadString('\n')
	return err
}
