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

// wayStagger is between the beginnings of two.
const wayStagger = 200 * time.Millisecond

// ways are the addresses at which a job's coordinator is reached: whichever answers is
// as good as the others.
type ways struct {
	token   []byte
	stagger time.Duration

	mu    sync.Mutex
	addrs []string
	next  int // the one to try first
}

// waysTo are those of a --coordinator: one address, or several with commas.
func waysTo(addr string, token []byte) *ways {
	return &ways{token: token, stagger: wayStagger, addrs: strings.Split(addr, ",")}
}

// dial tries each once, the next when one has failed or has not answered for stagger: a
// host that is cut off must not keep waiting who could have another. Who comes again has
// lost the one that it had.
func (w *ways) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	first, addrs := w.next, w.addrs
	w.mu.Unlock()
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		at   int
		err  error
	}
	answers := make(chan answer, len(addrs))
	begun, open := 0, 0
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for begun < len(addrs) || open > 0 {
		select {
		case <-next.C:
			if begun == len(addrs) {
				continue
			}
			n := (first + begun) % len(addrs)
			begun, open = begun+1, open+1
			go func() {
				conn, err := w.one(ctx, addrs[n], len(addrs) > 1)
				answers <- answer{conn, n, err}
			}()
			next.Reset(w.stagger)
		case a := <-answers:
			open--
			if a.err == nil {
				w.after(a.at)
				go func() { // cancel ends them
					for range open {
						if late := <-answers; late.conn != nil {
							_ = late.conn.Close()
						}
					}
				}()
				return a.conn, nil
			}
			if errs = append(errs, a.err); asked.Err() != nil {
				w.after(first)
				begun = len(addrs)
			}
			next.Reset(0)
		}
	}
	return nil, errors.Join(errs...)
}

// after has the next dial begin behind the address at n.
func (w *ways) after(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = n + 1
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
