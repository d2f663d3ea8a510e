package serve

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// clearStale removes the socket file that a server left which was killed: one to
// which nobody listens any more. Whatever else is at the address stays.
func clearStale(listen string) {
	path, ok := strings.CutPrefix(listen, "unix:")
	if !ok {
		return
	}
	st, err := os.Lstat(path)
	if err != nil || st.Mode().Type() != os.ModeSocket {
		return
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // listening says what is wrong where this fails
	}
}
