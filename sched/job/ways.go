package job

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord/remote"
)

// wayTimeout bounds one attempt to reach a coordinator, where there are others to try.
const wayTimeout = 2 * time.Second

// ways are the addresses at which a job's coordinator is reached: whichever answers is
// as good as the others.
type ways struct {
	token []byte

	mu    sync.Mutex
	addrs []string
	next  int // the one to try first
}

// waysTo are those of a --coordinator: one address, or several with commas.
func waysTo(addr string, token []byte) *ways {
	return &ways{token: token, addrs: strings.Split(addr, ",")}
}

// dial tries each once. Who comes again has lost the one that it had.
func (w *ways) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	first, addrs := w.next, w.addrs
	w.mu.Unlock()
	var errs []error
	for i := range addrs {
		n := (first + i) % len(addrs)
		conn, err := w.one(ctx, addrs[n], len(addrs) > 1)
		if err == nil || ctx.Err() != nil {
			w.mu.Lock()
			w.next = n + 1
			w.mu.Unlock()
		}
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// set has who dials from here on try others; addrs is its own from then on.
func (w *ways) set(addrs []string) {
	if len(addrs) == 0 { // those of before are no worse than none
		return
	}
	w.mu.Lock()
	w.addrs = addrs
	w.mu.Unlock()
}

func (w *ways) one(ctx context.Context, addr string, others bool) (net.Conn, error) {
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wayTimeout)
		defer cancel()
	}
	network, address := splitAddr(addr)
	return secure.Dial(ctx, network, address, w.token)
}

// client is a coordinator behind them.
func (w *ways) client() *remote.Client { return remote.New(w.dial) }
