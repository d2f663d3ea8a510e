package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPipeTimeout is how long a pipe command may give nothing.
const DefaultPipeTimeout = time.Minute

// endGrace is how long a command may live on when it has closed its output.
const endGrace = 10 * time.Second

// saidBytes of what a command writes to stderr are kept, the last ones.
const saidBytes = 2 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-saidBytes):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-saidBytes):]...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "?")
}

// piped is a file read through a command of the user's: sh -c COMMAND, the file as
// its stdin. What it reads and gives lies in the kernel's pipe; when nobody reads on
// it stands still. It has a process group of its own, which dies with it: also what the
// shell left in the background. The group's leader is a guard, another shell, which waits
// for the end of a pipe that this process alone can write to: where this process is
// killed the guard kills the group, itself included. (PR_SET_PDEATHSIG would reach the
// command's shell alone, and none of its children.) The guard's number, which is the
// group's, stays taken until it is reaped, so the group is killed before that, and never
// after.
type piped struct {
	path    string
	command string
	in      *os.File
	out     *os.File // the command's stdout
	cmd     *exec.Cmd
	guard   *exec.Cmd
	alive   *os.File // what the guard waits for; nobody writes to it
	said    *tail
	timeout time.Duration
	lines   int
	ended   chan struct{} // closed when the shell has ended; it is not reaped by that
	stop    func() bool
	close   sync.Once

	mu     sync.Mutex
	reaped bool
	err    error // of the command, once reaped
}

// guarded is what a guard does. Of what comes to its stdin only the end counts.
const guarded = "while read -r x; do :; done; kill -KILL 0"

// startGuard makes the group that a command is to be in.
func (p *piped) startGuard() error {
	theirs, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	p.guard, p.alive = exec.Command("/bin/sh", "-c", guarded), alive
	p.guard.Stdin = theirs
	p.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.guard.Start(); err != nil {
		alive.Close()
		return err
	}
	return nil
}

// openPipe starts the command for one file. The end of ctx ends it.
func openPipe(ctx context.Context, path string, o *Options) (*piped, error) {
	in, err := openFile(path)
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fileError(path, err, "cannot be given to a command: %v", err)
	}
	p := &piped{path: path, in: in, out: out, said: new(tail), command: o.Pipe, timeout: cmp.Or(o.PipeTimeout, DefaultPipeTimeout), ended: make(chan struct{})}
	if err := p.startGuard(); err != nil {
		in.Close()
		out.Close()
		theirs.Close()
		return nil, p.unstartable(err)
	}
	p.cmd = exec.Command("/bin/sh", "-c", o.Pipe)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, theirs, p.said
	p.cmd.Env = append(os.Environ(), "PSRT_FILE="+path)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.guard.Process.Pid}
	p.cmd.WaitDelay = time.Second // for who has inherited stderr
	err = p.cmd.Start()
	theirs.Close()
	if err != nil {
		in.Close()
		out.Close()
		p.endGuard()
		return nil, p.unstartable(err)
	}
	go func() {
		defer close(p.ended)
		for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
	}()
	p.stop = context.AfterFunc(ctx, p.kill)
	return p, nil
}

func (p *piped) unstartable(err error) error {
	return fileError(p.path, err, "the pipe command cannot be started: %v; psrt starts /bin/sh -c %s", plain(err), shown(p.command))
}

// endGuard ends the group, and gives its number free.
func (p *piped) endGuard() {
	_ = syscall.Kill(-p.guard.Process.Pid, syscall.SIGKILL)
	_ = p.guard.Wait()
	p.alive.Close()
}

func (p *piped) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.guard.Process.Pid, syscall.SIGKILL)
	}
}

// reap ends the group of a shell that has ended, and says how the shell did.
func (p *piped) reap() error {
	<-p.ended
	p.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.reaped, p.err = true, p.cmd.Wait()
		p.endGuard()
	}
	return p.err
}

// Read returns io.EOF when the command has ended well, else an *Error.
func (p *piped) Read(b []byte) (int, error) {
	if err := p.out.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, fileError(p.path, err, "the pipe command's output cannot be read: %v", plain(err))
	}
	n, err := p.out.Read(b)
	for _, c := range b[:n] {
		if c == '\n' {
			p.lines++
		}
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.kill()
		_ = p.reap()
		return n, p.failure(fmt.Sprintf("gave nothing for %v: ended", p.timeout), err)
	case err != io.EOF:
		return n, p.failure(fmt.Sprintf("cannot be read: %v", plain(err)), err)
	}
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case <-p.ended:
	case <-grace.C:
		p.kill()
		_ = p.reap()
		return n, p.failure(fmt.Sprintf("closed its output and was still there %v later: ended", endGrace), nil)
	}
	if err := p.reap(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return n, p.failure("failed ("+err.Error()+")", err)
	}
	return n, io.EOF
}

func (p *piped) failure(what string, err error) error {
	msg := fmt.Sprintf("the pipe command %s after %d lines", what, p.lines)
	if said := strings.TrimSpace(p.said.String()); said != "" {
		lines := strings.Split(said, "\n")
		msg += "; it said: " + strings.Join(lines[max(0, len(lines)-3):], " | ")
	} else {
		msg += " and said nothing"
	}
	return fileError(p.path, err, "%s; try it by hand: %s", msg, p.byHand())
}

// byHand is a line for a shell that does what the pipe does.
func (p *piped) byHand() string {
	return fmt.Sprintf("PSRT_FILE=%s sh -c %s < %s", quoted(p.path), shown(p.command), quoted(p.path))
}

// shown is a command for a message: quoted, and cut.
func shown(command string) string {
	const most = 200
	if len(command) > most {
		command = strings.ToValidUTF8(command[:most], "") + "…"
	}
	return quoted(command)
}

// quoted is one word for a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Close ends the command, if it has not, and waits for it.
func (p *piped) Close() {
	p.close.Do(func() {
		p.stop()
		p.kill()
		_ = p.reap()
		p.in.Close()
		p.out.Close()
	})
}
