package guest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/wire"
)

// outputGrace is how long output is still read after a command's end from
// children that it left behind.
const outputGrace = time.Second

// process is a running command. All methods may be called on nil, which is none.
type process struct{ cmd *exec.Cmd }

func start(c wire.Command, w *wire.Writer) (*process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("lab: no command")
	}
	path, err := lookPath(c.Args[0], c.Dir, c.Env)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: c.Args, Dir: c.Dir, Env: c.Env,
		Stdout: w.Output(wire.KindStdout), Stderr: w.Output(wire.KindStderr),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   outputGrace,
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd}, nil
}

// lookPath finds a program as a shell with that environment would.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(dir, name), nil
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			file := filepath.Join(d, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// wait returns when the command has ended and nothing of its process group is
// left: the next command of this machine shall find it idle.
func (p *process) wait() wire.Exit {
	err := p.cmd.Wait()
	p.kill()
	var ended *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return wire.Exit{}
	case errors.As(err, &ended):
		status := ended.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return wire.Exit{Code: 128 + int(status.Signal())}
		}
		return wire.Exit{Code: status.ExitStatus()}
	}
	return wire.Exit{Code: 126, Error: err.Error()}
}

// signal goes to the command's whole process group.
func (p *process) signal(s unix.Signal) {
	if p != nil {
		_ = unix.Kill(-p.cmd.Process.Pid, s) // it may have ended already
	}
}

func (p *process) kill() { p.signal(unix.SIGKILL) }
