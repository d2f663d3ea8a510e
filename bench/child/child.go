package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"psrt/rdma/pin"
)

// Child is a running child process.
type Child struct {
	in     io.Closer
	to     *json.Encoder
	from   *json.Decoder
	stderr *bytes.Buffer
	ended  chan struct{}
	pid    int
}

// PID is the child's number as this process sees it.
func (c *Child) PID() int { return c.pid }

// Ended is closed when the child has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Command is a program to start.
type Command struct {
	Path string
	Args []string
	Env  []string // added to this process's own
	// Unshare are CLONE_NEW flags: namespaces of the child's own. The kernel
	// takes them away, with all that is in them, when the last process inside
	// has ended, however that came.
	Unshare uintptr
	CPUs    []int // of its threads; nil: all that this process has
}

// attributes: in a user namespace of its own the child is root.
func (c *Command) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: c.Unshare}
	if c.Unshare&syscall.CLONE_NEWUSER != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// Start starts c; it is killed when ctx ends or this process dies.
func Start(ctx context.Context, c Command) (*Child, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = c.attributes()
	cmd.WaitDelay = time.Second
	ch := &Child{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stderr = ch.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, outPeer, err := os.Pipe() // not StdoutPipe: Wait would close it under the decoder
	if err != nil {
		return nil, err
	}
	cmd.Stdout = outPeer
	started := make(chan error)
	go func() {
		// PR_SET_PDEATHSIG fires when the starting thread ends, so this one stays.
		runtime.LockOSThread()
		var err error
		if c.CPUs == nil {
			defer runtime.UnlockOSThread()
		} else { // the child inherits this thread's, and the thread ends with this goroutine
			err = pin.Hold(c.CPUs)
		}
		if err == nil {
			err = cmd.Start()
		}
		outPeer.Close()
		started <- err
		if err == nil {
			cmd.Wait() // how it ended shows in what it said, or did not say
		}
		close(ch.ended)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("child process: %w", err), out.Close())
	}
	ch.pid = cmd.Process.Pid
	ch.in, ch.to, ch.from = in, json.NewEncoder(in), json.NewDecoder(&closing{out})
	return ch, nil
}

// closing closes its file at the end of it.
type closing struct{ f *os.File }

func (c *closing) Read(b []byte) (int, error) {
	n, err := c.f.Read(b)
	if err != nil {
		c.f.Close()
	}
	return n, err
}

// Tell sends v to the child.
func (c *Child) Tell(v any) error {
	if err := c.to.Encode(v); err != nil {
		return c.lost(err)
	}
	return nil
}

// Hear waits for the child's next word; the end of Start's context ends the
// child and so the wait.
func (c *Child) Hear(v any) error {
	if err := c.from.Decode(v); err != nil {
		return c.lost(err)
	}
	return nil
}

// lost explains that the child is gone by its own last words.
func (c *Child) lost(err error) error {
	select {
	case <-c.ended:
	case <-time.After(2 * time.Second):
		return fmt.Errorf("child process: %w", err)
	}
	if said := strings.TrimSpace(c.stderr.String()); said != "" {
		return fmt.Errorf("child process ended: %s", said)
	}
	return fmt.Errorf("child process ended: %w", err)
}

// Close lets the child end by itself, a moment, then by kill.
func (c *Child) Close(kill func()) {
	c.in.Close()
	select {
	case <-c.ended:
	case <-time.After(3 * time.Second):
		kill()
		<-c.ended
	}
	for {
		var rest json.RawMessage // drains and so closes its output
		if c.from.Decode(&rest) != nil {
			return
		}
	}
}
