package dial

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/openfiles"
)

type attachFunc func(i int, d rdma.Domain) (rdma.EndpointConfig, error)

// attachError is the application's own failure: another transport would not
// help.
type attachError struct{ error }

func (e attachError) Unwrap() error { return e.error }

// prepare makes an endpoint on each of the domains and gives their addresses.
func prepare(domains []rdma.Domain, attach attachFunc) (eps []rdma.Endpoint, addresses [][]byte, err error) {
	for i, d := range domains {
		cfg, err := attach(i, d)
		if err != nil {
			_ = closeAll(eps)
			return nil, nil, attachError{fmt.Errorf("attach endpoint %d: %w", i, err)}
		}
		ep, err := d.NewEndpoint(cfg)
		if err != nil {
			_ = closeAll(eps)
			return nil, nil, fmt.Errorf("make endpoint %d: %w", i, err)
		}
		eps = append(eps, ep)
		addresses = append(addresses, ep.Address())
	}
	return eps, addresses, nil
}

// connectAll connects every endpoint at once, so that one deadline holds for
// all of them however many there are.
func (h *Host) connectAll(eps []rdma.Endpoint, addresses [][]byte, deadline time.Time) error {
	errs := make([]error, len(eps))
	var wg sync.WaitGroup
	for i := range eps {
		errs[i] = rdma.ErrClosed // what remains where it panics
		wg.Go(rdma.Guarded(h.cfg.OnPanic, func() { errs[i] = eps[i].Connect(addresses[i], deadline) }))
	}
	wg.Wait()
	failed := 0
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w (and %d of %d more endpoints)", first, failed-1, len(eps))
	}
	return first
}

// closeAll says only whether a peer is still inside: to who gives endpoints up, what else
// may go wrong means nothing.
func closeAll(eps []rdma.Endpoint) (inside error) {
	for _, ep := range eps {
		if err := ep.Close(); errors.Is(err, rdma.ErrInside) {
			inside = err
		}
	}
	return inside
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return openfiles.Explain(err).Error()
}
