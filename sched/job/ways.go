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
	first := w.next
	w.mu.Unlock()
	var errs []error
	for i := range w.addrs {
		n := (first + i) % len(w.addrs)
		conn, err := w.one(ctx, w.addrs[n])
		if err == nil || ctx.Err() != nil {
			w.mu.Lock()
			w.next = (n + 1) % len(w.addrs)
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

func (w *ways) one(ctx context.Context, addr string) (net.Conn, error) {
	if len(w.addrs) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wayTimeout)
		defer cancel()
	}
	network, address := splitAddr(addr)
	return secure.Dial(ctx, network, address, w.token)
}

// client is a coordinator behind them.
func (w *ways) client() *remote.Client { return remote.New(w.dial) }
