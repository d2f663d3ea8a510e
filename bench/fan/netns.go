package fan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// prefix of our namespaces' names; the process's number follows.
const prefix = "psbench-fan-"

const (
	serverAddr = "10.213.7.1"
	workerAddr = "10.213.7.2"
)

// wire is the link: two namespaces and what joins them.
type wire struct{ server, workers string }

// newWire makes it, after it has removed what dead processes left.
func newWire(ctx context.Context, c *Config) (_ *wire, err error) {
	sweep(ctx)
	name := prefix + strconv.Itoa(os.Getpid())
	w := &wire{server: name + "-s", workers: name + "-w"}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	rate := fmt.Sprintf("%dbit", c.BitsPerSec)
	for _, line := range []string{
		"ip netns add " + w.server,
		"ip netns add " + w.workers,
		"ip link add fan netns " + w.workers + " type veth peer name fan netns " + w.server,
		"ip -n " + w.server + " addr add " + serverAddr + "/24 dev fan",
		"ip -n " + w.workers + " addr add " + workerAddr + "/24 dev fan",
		"ip -n " + w.server + " link set lo up",
		"ip -n " + w.workers + " link set lo up",
		"ip -n " + w.server + " link set fan up",
		"ip -n " + w.workers + " link set fan up",
		// A burst of a packet or a timer tick's worth: what comes late by the
		// clock may be caught up, no more.
		"tc -n " + w.workers + " qdisc add dev fan root tbf rate " + rate +
			" burst " + strconv.FormatInt(max(c.BitsPerSec/8/1000, 128<<10), 10) + " limit " + strconv.Itoa(c.QueueBytes),
	} {
		if err = run(ctx, line); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *wire) close() {
	// Not with the run's context: that may have ended.
	_ = run(context.Background(), "ip netns del "+w.workers)
	_ = run(context.Background(), "ip netns del "+w.server)
}

// ErrLink: the link could not be made.
var ErrLink = errors.New("the rate-limited link needs iproute2 and CAP_NET_ADMIN and CAP_SYS_ADMIN (root); --link none measures over loopback")

func run(ctx context.Context, line string) error {
	f := strings.Fields(line)
	if out, err := exec.CommandContext(ctx, f[0], f[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("fan: %s: %w: %s: %w", line, err, strings.TrimSpace(string(out)), ErrLink)
	}
	return nil
}

// sweep removes namespaces of processes that are no more.
func sweep(ctx context.Context) {
	out, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, prefix)
		number, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(number); ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = run(ctx, "ip netns del "+name)
		}
	}
}
