package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord/remote"
)

// silenceWithin is how long each address of a coordinator is tried by itself.
const silenceWithin = time.Second

// Unanswered explains why a coordinator, at addr as --coordinator has it, has said nothing
// within a time: each of its addresses is tried by itself. Other errors stay what they are.
func Unanswered(ctx context.Context, addr string, token []byte, within time.Duration, err error) error {
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, secure.ErrToken):
		return err
	case remote.StoreAway(err):
		return withoutStore(err)
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if Endpoints(addr) != nil {
		return fmt.Errorf("job: the etcd at %s has not answered within %v: %w; etcdctl endpoint status shows which members do", addr, within, err)
	}
	return waysTo(addr, token).unanswered(ctx, within, err)
}

// withoutStore is for a process that answers, and whose store does not.
func withoutStore(err error) error {
	return &unansweredError{fmt.Sprintf("job: the job's coordinator is away (%v): training goes on, and what needs the coordinator waits until it is back; where that is your etcd, etcdctl endpoint status shows which members answer", err), err}
}

func (w *ways) unanswered(ctx context.Context, within time.Duration, err error) error {
	w.mu.Lock()
	addrs := slices.Clone(w.addrs)
	w.mu.Unlock()
	said := make([]error, len(addrs))
	var all sync.WaitGroup
	for i, a := range addrs {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, silenceWithin)
			defer cancel()
			conn, err := w.one(ctx, a, false)
			if said[i] = err; err == nil {
				_ = conn.Close()
			}
		})
	}
	all.Wait()
	var silent, there []string
	for i, a := range addrs {
		if said[i] != nil {
			silent = append(silent, a)
		} else {
			there = append(there, a)
		}
	}
	var text string
	const look = "stopped (ps shows T; kill -CONT has it go on), hung, dead or cut off"
	switch {
	case len(addrs) == 1 && len(silent) == 1:
		text = fmt.Sprintf("job: the coordinator at %s has not answered within %v: the process there, rank 0 of most jobs, is %s", addrs[0], within, look)
	case len(silent) == 0:
		text = fmt.Sprintf("job: the coordinator at %s takes connections and has not answered within %v: what keeps its keys does not answer it, be it your etcd (etcdctl endpoint status shows which members do) or the job's ranks, most of them %s",
			strings.Join(addrs, ", "), within, look)
	case len(there) == 0:
		text = fmt.Sprintf("job: none of the %d ranks that keep the coordinator, at %s, has answered within %v: they are %s", len(addrs), strings.Join(addrs, ", "), within, look)
	default:
		text = fmt.Sprintf("job: the coordinator has not answered within %v: of the %d ranks that keep it those at %s do not answer, and are %s; those at %s do, and can agree on nothing before more than half are there",
			within, len(addrs), strings.Join(silent, ", "), look, strings.Join(there, ", "))
	}
	return &unansweredError{text, err}
}

// unansweredError says it in its own words.
type unansweredError struct {
	text  string
	cause error
}

func (e *unansweredError) Error() string { return e.text }
func (e *unansweredError) Unwrap() error { return e.cause }
