package tcp

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxDialers is how many domains a listener has room for that dial it at once with all
// that they may; beyond, and under a flood of strangers, it closes the oldest connections.
const maxDialers = 64

// pending is how many connections are in a handshake with a listener: a quarter of the
// descriptors at most, as each takes one.
func pending() int {
	n := maxDialers * maxShaking
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < uint64(4*n) {
		n = int(limit.Cur / 4)
	}
	return max(n, maxShaking)
}

// maxShaking is how many links a domain has in a handshake with one listener, which
// closes the oldest of pending. By listener: a peer that cannot be reached must not
// keep links to others waiting.
const maxShaking = 16

// crowds are the links in a handshake, by listener.
type crowds struct {
	mu sync.Mutex
	at map[string]*crowd
}

// crowd is those with one listener.
type crowd struct {
	room  chan struct{} // as many as are inside
	users int           // with crowds.mu
}

// of is the crowd of a listener, for somebody who calls leave when that is over.
func (c *crowds) of(candidates []string) (in *crowd, leave func()) {
	key := strings.Join(candidates, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if in = c.at[key]; in == nil {
		in = &crowd{room: make(chan struct{}, maxShaking)}
		c.at[key] = in
	}
	in.users++
	return in, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if in.users--; in.users == 0 {
			delete(c.at, key)
		}
	}
}

// do calls shake once there is room.
func (c *crowd) do(ctx context.Context, shake func() error) error {
	select {
	case c.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.room }()
	return shake()
}
