package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"psrt/bench/lab/pair"
)

// host is this machine itself.
type host struct {
	name  string
	pair  *pair.Pair // nil: the devices were there
	grace time.Duration
}

// openHost gives this machine if it will do, nil if not.
func openHost(ctx context.Context, cfg Config) (Machine, error) {
	devices, err := pair.Devices("/sys")
	if err != nil {
		return nil, err
	}
	if len(devices) > 0 {
		name := card
		if strings.HasPrefix(devices[0], "rxe") {
			name = simulated
		}
		fmt.Fprintf(cfg.Log, "lab: this machine has %s: no virtual machine is booted (--vm does)\n", strings.Join(devices, ", "))
		return &host{name: name, grace: cfg.Grace}, nil
	}
	if os.Getuid() != 0 || exec.CommandContext(ctx, "modprobe", "rdma_rxe").Run() != nil {
		return nil, nil
	}
	p, err := pair.Up(ctx)
	if err != nil {
		return nil, err
	}
	if err := pair.Cross(); err != nil {
		return nil, errors.Join(err, p.Down(ctx))
	}
	fmt.Fprintf(cfg.Log, "lab: this machine's kernel has rdma_rxe: %s and %s on it until the end, no virtual machine is booted (--vm does)\n", pair.DeviceA, pair.DeviceB)
	return &host{simulated, p, cfg.Grace}, nil
}

func (h *host) Name() string { return h.name }

// Env is Machine's.
func (h *host) Env() []string { return []string{"PSRT_LAB=" + h.name} }

// Run is Machine's.
func (h *host) Run(ctx context.Context, c Command) (int, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, endSignal(context.Cause(ctx))) }
	cmd.WaitDelay = h.grace
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.As(err, &ended):
		status := ended.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return 0, fmt.Errorf("lab: %w", err)
	}
	return 0, nil
}

// Close is Machine's.
func (h *host) Close() (Report, error) {
	if h.pair == nil {
		return Report{}, nil
	}
	var report Report
	if t, err := pair.Count(); err == nil { // a command may have taken the devices away
		report = Report{DevicePackets: t.Device, LinkPackets: t.Link}
	}
	return report, h.pair.Down(context.Background())
}
