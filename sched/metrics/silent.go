package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// who is how people know a rank: by its name, and by the process that listens on its
// unix socket, which the kernel knows even where it says nothing.
func (p *Place) who() string {
	if !strings.ContainsRune(p.Addr, '/') || strings.Contains(p.Name, "(pid ") {
		return p.Name
	}
	c, err := (&net.Dialer{Timeout: rankWithin}).Dial("unix", p.Addr)
	if err != nil {
		return p.Name
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return p.Name
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || credErr != nil {
		return p.Name
	}
	return fmt.Sprintf("%s (pid %d)", p.Name, cred.Pid)
}

// whySilent says why a rank has shown nothing, and where to look.
func whySilent(err error) string {
	var late net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return fmt.Sprintf("no answer within %v: it is stopped (ps shows T; kill -CONT has it go on), hung, or without a core", rankWithin)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return "nothing listens there any more: it has died or ended; its last words are on the launcher's stderr"
	}
	return err.Error()
}
