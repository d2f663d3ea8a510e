package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeConfig is a lab whose emulator is this test program.
func fakeConfig(t *testing.T, how string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeEmulator, how)
	cfg := Defaults()
	cfg.ForceVM, cfg.Accel, cfg.Emulator, cfg.Cache = true, "tcg", self, t.TempDir()
	cfg.BootTimeout, cfg.Grace = 5*time.Minute, 2*patience
	cfg.Guest = filepath.Join(cfg.Cache, "static")
	write(t, cfg.Guest, "\x7fELF\x02\x01\x01\x00"+strings.Repeat("\x00", 8)+"\x02\x00\x3e\x00\x01\x00\x00\x00"+strings.Repeat("\x00", 28)+"\x40\x00\x38\x00\x00\x00\x40\x00\x00\x00\x00\x00")
	write(t, filepath.Join(cfg.Cache, "0.0-fake-"+recipe(), "vmlinuz"), "")
	write(t, filepath.Join(cfg.Cache, "0.0-fake-"+recipe(), "modules/00-veth.ko"), "module")
	return cfg
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// open opens a machine and demands at the test's end that its emulator is gone.
func open(t *testing.T, cfg Config) Machine {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = m.Close() // twice does no harm
		if v, ok := m.(*vm); ok && v.emulator.Process.Signal(syscall.Signal(0)) == nil {
			t.Errorf("the emulator, process %d, is still there", v.emulator.Process.Pid)
		}
	})
	return m
}

func shell(line string, out, errs *bytes.Buffer) Command {
	return Command{Args: []string{"sh", "-c", line}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "GREETING=hello"}, Stdout: out, Stderr: errs}
}

func TestVMCommands(t *testing.T) {
	m := open(t, fakeConfig(t, "serves"))
	for _, c := range []struct {
		line, stdout, stderr string
		code                 int
	}{
		{"echo out; echo err >&2; exit 7", "out\n", "err\n", 7},
		{"echo $GREETING; pwd", "hello\n/\n", "", 0},
		{"kill -TERM $$", "", "", 128 + 15},
		{"head -c 300000 /dev/zero | tr '\\0' x", strings.Repeat("x", 300000), "", 0},
		{"sleep 20 & echo left a child behind", "left a child behind\n", "", 0},
	} {
		var out, errs bytes.Buffer
		code, err := m.Run(t.Context(), shell(c.line, &out, &errs))
		if err != nil || code != c.code || out.String() != c.stdout || errs.String() != c.stderr {
			t.Errorf("%s: code %d, %d bytes out, err %.200q, %v; want %d, %d bytes, %q", c.line, code, out.Len(), errs.String(), err, c.code, len(c.stdout), c.stderr)
		}
	}
	var out, errs bytes.Buffer
	code, err := m.Run(t.Context(), Command{Args: []string{"no-such-program"}, Dir: "/", Stdout: &out, Stderr: &errs})
	if err != nil || code != 127 || !strings.Contains(errs.String(), "no-such-program") {
		t.Errorf("a program that is not there: code %d, %v, stderr %q", code, err, errs.String())
	}
	if r, err := m.Close(); err != nil || r.DevicePackets != 5 || r.LinkPackets != 6 {
		t.Errorf("Close: %+v, %v", r, err)
	}
}

// patience bounds what ends by a signal, on a machine ten times slower than a
// laptop. What would not end by it takes longer.
const patience = 45 * time.Second

var errUser = errors.New("the user")

func TestVMEnds(t *testing.T) {
	for name, c := range map[string]struct {
		emulator string
		line     string
		cause    error
		stdout   string
	}{
		"deadline":    {"serves", "trap 'echo goroutines; exit 2' QUIT; echo up; sleep 200 & wait", context.DeadlineExceeded, "up\ngoroutines\n"},
		"interrupted": {"serves", "trap 'echo summary; exit 130' INT; echo up; sleep 200 & wait", errUser, "up\nsummary\n"},
		"stubborn":    {"serves", "trap '' INT; echo up; sleep 50; sleep 50; sleep 50; sleep 50", errUser, "up\n"},
		"hung":        {"hangs", "", errUser, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fakeConfig(t, c.emulator)
			if c.stdout == "up\n" || c.stdout == "" {
				cfg.Grace = 300 * time.Millisecond
			}
			m := open(t, cfg)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			up := make(chan struct{}, 10)
			out := &signalling{wrote: up}
			go func() {
				if c.stdout != "" {
					<-up
				}
				cancel(c.cause)
			}()
			command := shell(c.line, nil, &bytes.Buffer{})
			command.Stdout = out
			began := time.Now()
			_, err := m.Run(ctx, command)
			if took := time.Since(began); !errors.Is(err, c.cause) || took > patience {
				t.Errorf("Run: %v after %v, want %v within %v", err, took, c.cause, patience)
			}
			if out.String() != c.stdout {
				t.Errorf("output %q, want %q", out.String(), c.stdout)
			}
			if _, err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// signalling tells of the first output. One goroutine writes and then reads.
type signalling struct {
	bytes.Buffer
	wrote chan struct{}
}

func (s *signalling) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func TestVMDoesNotComeUp(t *testing.T) {
	for how, want := range map[string]string{
		"mute":  "did not come up within 300ms",
		"dies":  "Unable to mount root fs",
		"unfit": "rxe0 has no GID",
	} {
		cfg := fakeConfig(t, how)
		if how == "mute" {
			cfg.BootTimeout = 300 * time.Millisecond
		}
		_, err := Open(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", how, err, want)
		}
	}
	cfg := fakeConfig(t, "serves")
	cfg.Emulator = "/no/such/emulator"
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "qemu-system-x86") {
		t.Errorf("without an emulator: %v", err)
	}
}

func TestVMKernelFault(t *testing.T) {
	m := open(t, fakeConfig(t, "faulty"))
	var out, errs bytes.Buffer
	if code, err := m.Run(t.Context(), shell("echo fine", &out, &errs)); code != 0 || err != nil {
		t.Errorf("the command: code %d, %v", code, err)
	}
	_, err := m.Close()
	if !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "NULL pointer dereference") || !strings.Contains(err.Error(), "rxe_completer") {
		t.Errorf("Close: %v, want the kernel's fault with its lines", err)
	}
}

func TestDynamicGuestRefused(t *testing.T) {
	cfg := fakeConfig(t, "serves")
	cfg.Guest = "/bin/sh"
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a dynamically linked guest: %v", err)
	}
}

func TestConfigRefused(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.CPUs = 0 },
		func(c *Config) { c.CPUs, c.NUMA = 3, true },
		func(c *Config) { c.MemoryMiB = 100 },
	} {
		cfg := fakeConfig(t, "serves")
		change(&cfg)
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%d processors, NUMA %v, %d MiB: not refused", cfg.CPUs, cfg.NUMA, cfg.MemoryMiB)
		}
	}
}
