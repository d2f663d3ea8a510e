package ibperf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tools of perftest that Run knows.
const (
	WriteLat = "ib_write_lat"
	WriteBW  = "ib_write_bw"
	ReadBW   = "ib_read_bw"
)

// Side is the device of one of the two processes.
type Side struct {
	Device   string
	Port     int
	GIDIndex int
}

// Missing says which tool is not installed, nil when all are.
func Missing() error {
	for _, tool := range []string{WriteLat, WriteBW, ReadBW} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("ibperf: %s is not installed: apt-get install perftest", tool)
		}
	}
	return nil
}

// ackTimeout is 4.096 us x 2^17 = 0.54 s: with the tools' own 67 ms, emulated
// devices send again what was only late, and break.
const ackTimeout = "17"

// timeout bounds one run, which takes seconds, on a machine ten times slower than
// a laptop.
const timeout = 5 * time.Minute

// attempts: under emulation the tools now and then take a run for infinitely
// short and print zeros.
const attempts = 4

// Run measures size bytes so many times; the client is on here. Each run has a
// port of its own.
func Run(ctx context.Context, tool string, here, there Side, size, iterations int) (r Result, err error) {
	for range attempts {
		if r, err = once(ctx, tool, here, there, size, iterations); !errors.Is(err, errZero) {
			return r, err
		}
	}
	return r, err
}

func once(ctx context.Context, tool string, here, there Side, size, iterations int) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return Result{}, err
	}
	// Fewer than five iterations are refused by the tools.
	args := func(s Side) []string {
		a := []string{"-d", s.Device, "-i", strconv.Itoa(max(s.Port, 1)), "-x", strconv.Itoa(s.GIDIndex), "-p", strconv.Itoa(port),
			"-s", strconv.Itoa(size), "-n", strconv.Itoa(max(iterations, 5)), "-F", "-u", ackTimeout}
		if tool != WriteLat {
			a = append(a, "--report_gbits")
		}
		return a
	}
	// PR_SET_PDEATHSIG fires when the starting thread ends, so this one stays
	// until both have.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	server := exec.CommandContext(ctx, tool, args(there)...)
	var serverSaid bytes.Buffer
	server.Stdout, server.Stderr = &serverSaid, &serverSaid
	server.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := server.Start(); err != nil {
		return Result{}, fmt.Errorf("ibperf: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = server.Wait(); close(ended) }()
	defer func() {
		select { // it ends by itself once the client has what it wants
		case <-ended:
		case <-time.After(2 * time.Second):
			cancel()
			<-ended
		}
	}()
	if err := listening(ctx, port, ended); err != nil {
		cancel()
		<-ended
		return Result{}, fmt.Errorf("ibperf: %s server: %w: %s", tool, err, lastLines(serverSaid.String()))
	}
	client := exec.CommandContext(ctx, tool, append(args(here), "127.0.0.1")...)
	client.SysProcAttr = server.SysProcAttr
	var said bytes.Buffer // the tools end with their banner, which they hold back; why they failed comes here at once
	client.Stderr = &said
	out, err := client.Output()
	if err != nil {
		cancel()
		if said.Len() == 0 {
			said.Write(out)
		}
		return Result{}, fmt.Errorf("ibperf: %s: %w: %s", tool, err, lastLines(said.String()))
	}
	r, err := parse(bytes.NewReader(out))
	if err != nil {
		return r, fmt.Errorf("%w: %s", err, lastLines(string(out)))
	}
	return r, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// listening waits until a socket of the port listens. It does not connect: the
// tools take the first connection for their peer.
func listening(ctx context.Context, port int, ended chan struct{}) error {
	want := fmt.Sprintf(":%04X ", port)
	for {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, _ := os.ReadFile(file) // absent without IPv6
			for _, line := range strings.Split(string(b), "\n") {
				f := strings.Fields(line)
				if len(f) > 3 && strings.HasSuffix(f[1]+" ", want) && f[3] == "0A" { // TCP_LISTEN
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return errors.New("ended before it listened")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lastLines of a tool's output, on one line.
func lastLines(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	return strings.Join(lines[max(len(lines)-4, 0):], " | ")
}
