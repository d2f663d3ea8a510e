package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Config is a lab.
type Config struct {
	Cache       string   // folder for kernels, see DefaultCache
	Shares      []string // folders that commands may write to; absolute
	ForceVM     bool     // boot the virtual machine even if this machine would do
	Accel       string   // "kvm", "tcg", or empty: KVM if a probe shows that it boots
	NUMA        bool     // a virtual machine has two NUMA nodes
	CPUs        int
	MemoryMiB   int
	BootTimeout time.Duration
	Grace       time.Duration // a command's, between the signal and its end
	Guest       string        // program with the guest's side in it, statically linked
	Emulator    string        // program name or path
	Log         io.Writer     // a line or two on what is done
}

// Defaults are what `make lab` uses.
func Defaults() Config {
	return Config{CPUs: 2, MemoryMiB: 4096, BootTimeout: 5 * time.Minute, Grace: 5 * time.Second, Emulator: "qemu-system-x86_64", Log: io.Discard}
}

// Command is one to run. Env is all of its environment.
type Command struct {
	Args           []string
	Dir            string
	Env            []string
	Stdout, Stderr io.Writer
}

// Machine is where commands run, one at a time.
type Machine interface {
	// Run gives the command's exit code as a shell would. When ctx ends, the
	// command gets a signal (QUIT at a deadline, so that a Go program shows its
	// goroutines, else INT), then a grace, then it is killed; the error is
	// ctx's cause.
	Run(ctx context.Context, c Command) (code int, err error)
	// Close ends the machine. Its error wraps ErrKernel if the kernel complained.
	Close() (Report, error)
	// Name is the value of PSRT_LAB: rxe or device.
	Name() string
	// Env lists the variables, as NAME=VALUE, that describe the machine to commands.
	Env() []string
}

// Names of machines.
const (
	simulated = "rxe"    // soft-RoCE, where every test of RDMA must run
	card      = "device" // a card
)

// Report is what is known at the end.
type Report struct {
	DevicePackets int64 // sent by the RDMA devices
	LinkPackets   int64 // that crossed the link between them
}

// ErrKernel is wrapped when the machine's kernel reported a fault of its own.
var ErrKernel = errors.New("the machine's kernel reported a fault")

// Open chooses the machine and readies it.
func Open(ctx context.Context, cfg Config) (Machine, error) {
	if cfg.CPUs < 1 || cfg.NUMA && cfg.CPUs%2 != 0 || cfg.MemoryMiB < 512 {
		return nil, fmt.Errorf("lab: %d processors and %d MiB: want at least 1 and 512; with NUMA nodes, an even number of processors", cfg.CPUs, cfg.MemoryMiB)
	}
	if !cfg.ForceVM {
		m, err := openHost(ctx, cfg)
		if m != nil || err != nil {
			return m, err
		}
	}
	return openVM(ctx, cfg)
}
