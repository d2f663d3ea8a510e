package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/wire"
)

// vm is a running virtual machine.
type vm struct {
	emulator *exec.Cmd
	grace    time.Duration
	numa     bool     // two NUMA nodes
	port     *os.File // the stream to the agent
	w        *wire.Writer
	frames   chan frame
	quit     chan struct{} // closed: nobody takes frames any more
	exited   chan struct{} // closed when the emulator has ended and its console is read

	mu      sync.Mutex // guards console
	console kernelLog
}

type frame struct {
	kind    wire.Kind
	payload []byte
}

// openVM boots a machine and waits for its agent.
func openVM(ctx context.Context, cfg Config) (Machine, error) {
	began := time.Now()
	kernel, err := FindKernel(ctx, cfg.Cache, cfg.Log)
	if err != nil {
		return nil, err
	}
	accel := cfg.Accel
	if accel == "" {
		accel = chooseAccel(ctx, cfg, kernel)
	}
	config := wire.Config{}
	if config.Modules, err = kernel.Modules(); err != nil {
		return nil, err
	}
	for i, path := range cfg.Shares {
		config.Shares = append(config.Shares, wire.Share{Tag: fmt.Sprintf("share%d", i), Path: path})
	}
	v, err := startVM(cfg, kernel, accel, config)
	if err != nil {
		return nil, err
	}
	hello, err := v.greeting(ctx, cfg.BootTimeout)
	if err != nil {
		return nil, errors.Join(err, v.kill())
	}
	numa := ""
	if cfg.NUMA {
		numa = ", 2 NUMA nodes"
	}
	fmt.Fprintf(cfg.Log, "lab: Linux %s under %s%s, ready in %.1f s: %s\n",
		hello.Kernel, accel, numa, time.Since(began).Seconds(), strings.Join(hello.Devices, ", "))
	return v, nil
}

// startVM starts the emulator.
func startVM(cfg Config, kernel Kernel, accel string, config wire.Config) (*vm, error) {
	initrd, err := initialFiles(cfg.Guest, kernel, config)
	if err != nil {
		return nil, err
	}
	defer initrd.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "agent")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	v := &vm{
		grace:  cfg.Grace,
		numa:   cfg.NUMA,
		port:   os.NewFile(uintptr(pair[0]), "agent"),
		frames: make(chan frame), quit: make(chan struct{}), exited: make(chan struct{}),
	}
	v.w = wire.NewWriter(v.port)
	m := machine{accel: accel, kernel: kernel.Image(), cpus: cfg.CPUs, memoryMiB: cfg.MemoryMiB, numa: cfg.NUMA, shares: config.Shares}
	v.emulator = exec.Command(cfg.Emulator, m.args()...)
	v.emulator.ExtraFiles = []*os.File{portFD - 3: theirs, initrdFD - 3: initrd}
	v.emulator.Stdout, v.emulator.Stderr = consoleWriter{v}, consoleWriter{v}
	// Away from the terminal's Ctrl-C, and gone if we are.
	v.emulator.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go v.supervise(started)
	if err := <-started; err != nil {
		v.port.Close()
		return nil, fmt.Errorf("lab: starting the emulator: %w: install the Debian package qemu-system-x86", err)
	}
	go v.read()
	return v, nil
}

// supervise starts the emulator and waits for its end on one thread: the signal
// at the parent's death is sent when the thread that started it ends.
func (v *vm) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := v.emulator.Start()
	started <- err
	if err != nil {
		return
	}
	_ = v.emulator.Wait() // how the machine ended is told by the agent or the console
	close(v.exited)
}

type consoleWriter struct{ v *vm }

func (c consoleWriter) Write(p []byte) (int, error) {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	return c.v.console.Write(p)
}

// read hands on what the agent says.
func (v *vm) read() {
	defer close(v.frames)
	for {
		kind, payload, err := wire.Read(v.port)
		if err != nil {
			return // the machine's end; next says why
		}
		select {
		case v.frames <- frame{kind, payload}:
		case <-v.quit:
			return
		}
	}
}

// next waits for the agent's next frame.
func (v *vm) next(ctx context.Context) (frame, error) {
	select {
	case f, ok := <-v.frames:
		if !ok {
			<-v.killed()
			return frame{}, v.died()
		}
		return f, nil
	case <-ctx.Done():
		return frame{}, context.Cause(ctx)
	}
}

// died says with the console's last lines that the machine is gone.
func (v *vm) died() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.console.findings) > 0 {
		return kernelError(v.console.findings)
	}
	return fmt.Errorf("lab: the virtual machine ended by itself; its last words:\n  %s", strings.Join(v.console.recent, "\n  "))
}

func kernelError(findings []string) error {
	return fmt.Errorf("lab: %w:\n  %s", ErrKernel, strings.Join(findings, "\n  "))
}

// greeting waits until the machine is ready.
func (v *vm) greeting(ctx context.Context, timeout time.Duration) (wire.Hello, error) {
	var hello wire.Hello
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("lab: the virtual machine did not come up within %v: is the host very busy? --boot-timeout gives it longer", timeout))
	defer cancel()
	f, err := v.next(ctx)
	if err != nil {
		return hello, err
	}
	if f.kind != wire.KindHello {
		return hello, fmt.Errorf("lab: the guest begins with a frame of kind %q, not with its greeting", f.kind)
	}
	if err := wire.Decode(f.payload, &hello); err != nil {
		return hello, err
	}
	if hello.Error != "" {
		return hello, fmt.Errorf("lab: inside the machine: %s", hello.Error)
	}
	return hello, nil
}

func (v *vm) Name() string { return simulated }

// Env is Machine's.
func (v *vm) Env() []string {
	env := []string{"PSRT_LAB=" + simulated}
	if v.numa {
		env = append(env, "PSRT_LAB_NUMA=1")
	}
	return env
}

// Run is Machine's.
func (v *vm) Run(ctx context.Context, c Command) (int, error) {
	if err := v.w.WriteJSON(wire.KindRun, wire.Command{Args: c.Args, Dir: c.Dir, Env: c.Env}); err != nil {
		<-v.killed()
		return 0, v.died()
	}
	code, err := v.follow(ctx, c)
	cause := context.Cause(ctx)
	if err == nil || cause == nil || !errors.Is(err, cause) {
		return code, err
	}
	if err := v.w.Write(wire.KindSignal, []byte{byte(endSignal(cause))}); err != nil {
		return 0, errors.Join(cause, v.kill())
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.grace)
	defer cancel()
	if _, err := v.follow(late, c); err != nil {
		return 0, errors.Join(cause, v.kill())
	}
	return 0, cause
}

// endSignal is the first signal to a command whose context has ended.
func endSignal(cause error) syscall.Signal {
	if errors.Is(cause, context.DeadlineExceeded) {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// follow copies output until the command's exit.
func (v *vm) follow(ctx context.Context, c Command) (int, error) {
	for {
		f, err := v.next(ctx)
		if err != nil {
			return 0, err
		}
		switch f.kind {
		case wire.KindStdout:
			_, err = c.Stdout.Write(f.payload)
		case wire.KindStderr:
			_, err = c.Stderr.Write(f.payload)
		case wire.KindExit:
			var exit wire.Exit
			if err := wire.Decode(f.payload, &exit); err != nil {
				return 0, err
			}
			if exit.Error != "" {
				fmt.Fprintf(c.Stderr, "lab: %s: %s\n", strings.Join(c.Args, " "), exit.Error)
			}
			return exit.Code, nil
		default:
			err = fmt.Errorf("lab: a frame of kind %q from the guest, unexpected now", f.kind)
		}
		if err != nil {
			return 0, err
		}
	}
}

// closeTimeout bounds the machine's own way to its end.
const closeTimeout = 15 * time.Second

// Close is Machine's.
func (v *vm) Close() (Report, error) {
	var report Report
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := v.w.Write(wire.KindQuit, nil); err == nil {
		for {
			f, err := v.next(ctx)
			if err != nil {
				break // it is killed below; the console is judged all the same
			}
			if f.kind != wire.KindBye {
				continue // the end of a command that was given up
			}
			var t wire.Traffic
			if err := wire.Decode(f.payload, &t); err != nil {
				return report, errors.Join(err, v.kill())
			}
			report = Report(t)
			break
		}
	}
	select {
	case <-v.exited:
	case <-ctx.Done():
	}
	return report, v.kill()
}

// kill ends the emulator and judges the console.
func (v *vm) kill() error {
	<-v.killed()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.console.findings) > 0 {
		return kernelError(v.console.findings)
	}
	return nil
}

// killed ends the emulator, if it still runs, and is closed when it has ended.
func (v *vm) killed() <-chan struct{} {
	v.mu.Lock()
	select {
	case <-v.quit:
	default:
		close(v.quit)
	}
	v.mu.Unlock()
	_ = v.emulator.Process.Kill() // it may have ended already
	_ = v.port.Close()
	return v.exited
}
