package doctor

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usual is where psrt serve listens if it is told nothing.
const usual = 7700

// listening is who has the ports that are wanted, and where psrt listens already.
func (x *examiner) listening() (all []Finding) {
	taken := x.listeners()
	for _, addr := range x.cfg.Listen {
		all = append(all, x.wanted(addr, taken))
	}
	f := Finding{Name: "port " + strconv.Itoa(usual), State: OK, Figure: "free for psrt serve"}
	if inodes := taken[usual]; len(inodes) > 0 {
		f.Figure = "in use by " + x.owner(inodes)
		if !strings.Contains(f.Figure, "psrt") {
			f.State, f.Mend = Warn, "psrt serve --listen with another port"
		}
	}
	return append(all, f)
}

func (x *examiner) wanted(addr string, taken map[int][]string) Finding {
	f := Finding{Name: "listening at " + addr, State: OK, Figure: "free", Asked: true}
	_, text, err := net.SplitHostPort(addr)
	port, bad := strconv.Atoi(text)
	if err != nil || bad != nil || port < 0 || port > 65535 {
		f.State, f.Figure, f.Mend = Missing, "this is no address to listen at", "HOST:PORT, such as 10.0.0.5:7700"
		return f
	}
	if inodes := taken[port]; port > 0 && len(inodes) > 0 && !x.here() {
		f.State, f.Figure, f.Mend = Missing, "port in use by "+x.owner(inodes), "end it, or give another port"
		return f
	}
	if !x.here() {
		return f
	}
	l, err := new(net.ListenConfig).Listen(x.ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = l.Close() // it was only tried
	case errors.Is(err, unix.EADDRINUSE):
		f.State, f.Figure, f.Mend = Missing, "port in use by "+x.owner(taken[port]), "end it, or give another port"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		f.State, f.Figure, f.Mend = Missing, "this machine does not have that address", "ip addr; give one of its own"
	case errors.Is(err, os.ErrPermission):
		f.State, f.Figure, f.Mend = Missing, fmt.Sprintf("this user (uid %d) may not listen at port %d", os.Geteuid(), port), "a port from 1024 on"
	default:
		f.State, f.Figure = Missing, err.Error()
	}
	return f
}

// listeners are the inodes of sockets that listen, by port.
//
//	sl  local_address rem_address   st ... inode
//	 0: 0100007F:1E14 00000000:0000 0A ... 12345
func (x *examiner) listeners() map[int][]string {
	all := map[int][]string{}
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for line := range strings.Lines(x.text(file)) {
			w := strings.Fields(line)
			if len(w) < 10 || w[3] != "0A" {
				continue
			}
			_, port, _ := strings.Cut(w[1], ":")
			if b, err := hex.DecodeString(port); err == nil && len(b) == 2 {
				n := int(b[0])<<8 | int(b[1])
				all[n] = append(all[n], w[9])
			}
		}
	}
	return all
}

// owner is the process that has one of the sockets open.
func (x *examiner) owner(inodes []string) string {
	for _, link := range x.glob("proc/[0-9]*/fd/*") {
		if x.ctx.Err() != nil {
			break
		}
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, "socket:[") {
			continue
		}
		for _, i := range inodes {
			if to == "socket:["+i+"]" {
				dir := filepath.Dir(filepath.Dir(link))
				return fmt.Sprintf("process %s (%s)", filepath.Base(dir), text(filepath.Join(dir, "comm")))
			}
		}
	}
	return "a process of another user or namespace"
}
