package shm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// control is the unix socket of one pair of endpoints: it carries messages
// with descriptors, and its end is how a peer's death is seen.
type control struct {
	conn *net.UnixConn
	peer *os.File // pidfd of the peer, nil when it cannot be had or is this process
}

// maxDescriptors is the most one message carries.
const maxDescriptors = 3

// newControl checks who is at the other end: only processes of this user.
func newControl(conn *net.UnixConn) (*control, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if credErr != nil {
		return nil, fmt.Errorf("shm: asking for the peer's credentials: %w", credErr)
	}
	if int(cred.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("shm: peer runs as user %d, this process as user %d: shared memory is for one user's processes; use --transport tcp", cred.Uid, os.Geteuid())
	}
	c := &control{conn: conn}
	// A child that the peer forked may hold the socket open after the peer's
	// death; the process itself is asked too. Pid 0: in another pid namespace.
	if int(cred.Pid) != os.Getpid() && cred.Pid > 0 {
		if fd, err := unix.PidfdOpen(int(cred.Pid), 0); err == nil {
			c.peer = os.NewFile(uintptr(fd), "peer")
		}
	}
	return c, nil
}

// peerAlive is false once the peer's process has ended.
func (c *control) peerAlive() bool {
	if c.peer == nil {
		return true
	}
	p := []unix.PollFd{{Fd: int32(c.peer.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err != nil || n == 0
}

func (c *control) close() {
	c.conn.Close()
	if c.peer != nil {
		c.peer.Close()
	}
}

// errBusy: the socket's buffer is full; try again later.
var errBusy = errors.New("shm: control socket is full")

// send never blocks.
func (c *control) send(m *message, fds ...int) error {
	var b [messageSize]byte
	m.encode(&b)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), b[:], oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	})
	if err == nil {
		err = sendErr
	}
	if errors.Is(err, unix.EAGAIN) {
		return errBusy
	}
	return err
}

// receive waits for the next message until the deadline. The descriptors are
// the caller's to close.
func (c *control) receive(deadline time.Time) (message, []*os.File, error) {
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return message{}, nil, err
	}
	b := make([]byte, messageSize+1)
	oob := make([]byte, unix.CmsgSpace(maxDescriptors*4))
	n, oobn, flags, _, err := c.conn.ReadMsgUnix(b, oob)
	if err != nil {
		return message{}, nil, err
	}
	files, err := descriptors(oob[:oobn])
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: more than %d descriptors, or no descriptor free in this process (ulimit -n)", errMessage, maxDescriptors)
	}
	if err == nil && n == 0 {
		err = net.ErrClosed
	}
	var m message
	if err == nil {
		m, err = decodeMessage(b[:n])
	}
	if err != nil {
		closeAll(files)
		return message{}, nil, err
	}
	return m, files, nil
}

func descriptors(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	parts, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	var files []*os.File
	for _, p := range parts {
		fds, err := unix.ParseUnixRights(&p)
		if err != nil {
			continue // credentials or the like: not asked for, not used
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
