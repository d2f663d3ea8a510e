package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Hosts are network namespaces of this machine that look like hosts.
type Hosts struct {
	N   int
	net string // "10.x.0."
	tag string // begins the namespaces' names
	t   testing.TB
}

// serial tells the clusters of a process apart.
var serial atomic.Int32

// stepTimeout bounds one set-up command.
const stepTimeout = time.Minute

// New makes n hosts; the end of the test removes them.
func New(t testing.TB, n int) *Hosts {
	t.Helper()
	Need(t, Namespaces)
	k := serial.Add(1)
	h := &Hosts{N: n, net: fmt.Sprintf("10.%d.%d.", 64+os.Getpid()%128, k), tag: fmt.Sprintf("psrt%d-%d-", os.Getpid(), k), t: t}
	var spaces []string
	for i := 0; i <= n; i++ {
		spaces = append(spaces, h.space(i))
	}
	over := watched(t, spaces)
	t.Cleanup(func() { h.remove(); over() })
	h.ip("netns add " + h.space(0))
	h.in(0, "link set lo up", "link add br0 type bridge", "addr add "+h.Addr(0)+"/24 dev br0", "link set br0 up")
	for i := 1; i <= n; i++ {
		h.ip("netns add " + h.space(i))
		h.in(0, fmt.Sprintf("link add ve%d type veth peer name eth0 netns %s", i, h.space(i)), fmt.Sprintf("link set ve%d master br0 up", i))
		h.in(i, "link set lo up", "addr add "+h.Addr(i)+"/24 dev eth0", "link set eth0 up")
	}
	return h
}

// Addr is the address of host i; 0 is the head.
func (h *Hosts) Addr(i int) string {
	if i == 0 {
		i = 100
	}
	return h.net + fmt.Sprint(i)
}

// Name is the name of host i.
func (h *Hosts) Name(i int) string {
	if i == 0 {
		return "head"
	}
	return fmt.Sprintf("h%d", i)
}

func (h *Hosts) space(i int) string { return h.tag + fmt.Sprint(i) }

// ip runs one command of iproute2.
func (h *Hosts) ip(words string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	path, err := lookPath("ip")
	if err != nil {
		h.t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, path, strings.Fields(words)...).CombinedOutput(); err != nil {
		h.t.Fatalf("ip %s: %v: %s", words, err, out)
	}
}

func (h *Hosts) in(i int, commands ...string) {
	h.t.Helper()
	for _, c := range commands {
		h.ip("-n " + h.space(i) + " " + c)
	}
}

// remove deletes the namespaces; processes in them keep theirs until they end.
func (h *Hosts) remove() {
	path, err := lookPath("ip")
	if err != nil {
		return
	}
	for i := 0; i <= h.N; i++ {
		_ = exec.Command(path, "netns", "del", h.space(i)).Run() // it may not have been made
	}
}

// Args is what runs a command on host i.
func (h *Hosts) Args(i int, args ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + h.space(i), "unshare", "-u", "sh", "-c", `hostname "$0"; exec "$@"`, h.Name(i)}, args...)
}

// Command runs on host i and ends with ctx.
func (h *Hosts) Command(ctx context.Context, i int, args ...string) *exec.Cmd {
	all := h.Args(i, args...)
	c := exec.CommandContext(ctx, all[0], all[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Minute // a launcher's daemons may hold its output for a while
	return c
}

// Run is Command, awaited: its output.
func (h *Hosts) Run(ctx context.Context, i int, args ...string) (string, error) {
	c := h.Command(ctx, i, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// Cut drops what host i sends to host j, and only that, until the returned
// function heals it.
func (h *Hosts) Cut(i, j int) (heal func()) {
	route := "route add blackhole " + h.Addr(j) + "/32"
	h.in(i, route)
	return func() { h.in(i, strings.Replace(route, "add", "del", 1)) }
}

// CutDatagrams has host j drop the UDP that host i sends to it, as a firewall does, until the
// returned function heals it.
func (h *Hosts) CutDatagrams(i, j int) (heal func()) {
	// The rule must come before the one that finds what is sent to the host itself.
	rule := " pref 1 from " + h.Addr(i) + " ipproto udp blackhole"
	h.in(j, "rule add pref 2 lookup local", "rule del pref 0", "rule add"+rule)
	return func() { h.in(j, "rule add pref 0 lookup local", "rule del pref 2", "rule del"+rule) }
}

// AddLink gives host i another interface with an address that no other host has
// a way to: what docker makes.
func (h *Hosts) AddLink(i int, name, prefix string) {
	h.in(i, "link add "+name+" type bridge", "addr add "+prefix+" dev "+name, "link set "+name+" up")
}

// wait waits for a child that was told to end, and kills it when it does not.
func wait(c *exec.Cmd, grace time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		<-done
		return errors.New("cluster: did not end and was killed")
	}
}
