package rendezvous

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"psrt/rdma/secure"
)

const (
	// ProbeTimeout bounds one attempt to connect to an address, answerWithin what follows
	// where that has been: the kernel connects at once, and the process there may be short
	// of cores.
	ProbeTimeout = 3 * time.Second
	answerWithin = 15 * time.Second
	// probeGrace is how long other addresses of a rank are waited for when one has
	// answered.
	probeGrace = 300 * time.Millisecond
	maxDials   = 64 // attempts under way at a time
	probeRetry = 50 * time.Millisecond
)

// probe answers connections of other ranks with this one's number.
type probe struct {
	rank int
	l    *secure.Listener
	all  sync.WaitGroup
}

// listenProbe opens the probe on all interfaces, or at the host of listen.
func listenProbe(rank int, listen string, token []byte) (*probe, error) {
	host, err := listenHost(listen)
	if err != nil {
		return nil, err
	}
	l, err := secure.Listen("tcp", net.JoinHostPort(host, "0"), token)
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	p := &probe{rank: rank, l: l}
	p.all.Go(p.serve)
	return p, nil
}

// listenHost is the host of listen, "" for all interfaces.
func listenHost(listen string) (string, error) {
	if listen == "" {
		return "", nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return "", &InputError{fmt.Errorf("rendezvous: --listen %s: %w", listen, err)}
	}
	return host, nil
}

func (p *probe) port() int { return p.l.Addr().(*net.TCPAddr).Port }

// serve tells everyone who proves the token which rank this is.
func (p *probe) serve() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return // closed
		}
		_ = conn.SetDeadline(time.Now().Add(ProbeTimeout))
		_, _ = conn.Write(binary.LittleEndian.AppendUint32(nil, uint32(p.rank))) // the dialer knows if not
		_ = conn.Close()
	}
}

func (p *probe) close() error {
	err := p.l.Close()
	p.all.Wait()
	return err
}

// reached is what an attempt came to.
type reached struct {
	Candidate int    `json:"candidate"`
	From      string `json:"from,omitempty"` // this side's address, where it connected
	Error     string `json:"error,omitempty"`
}

var errAnother = errors.New("more than one host has this address")

// ask connects to an address and finds out which rank is there.
func ask(ctx context.Context, addr string, rank int, token []byte) (from string, err error) {
	if err := connects(ctx, addr); err != nil {
		return "", err
	}
	for {
		from, err = askOnce(ctx, addr, rank, token)
		var op *net.OpError
		switch {
		case err == nil || errors.Is(err, secure.ErrToken) || errors.Is(err, errAnother) || errors.As(err, &op) && op.Op == "dial":
			return from, err
		}
		select { // a busy listener may have dropped it
		case <-ctx.Done():
			return from, err
		case <-time.After(probeRetry):
		}
	}
}

// connects says why an address cannot be reached at all.
func connects(ctx context.Context, addr string) error {
	ctx, end := context.WithTimeoutCause(ctx, ProbeTimeout, fmt.Errorf("no answer in %v", ProbeTimeout))
	defer end()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

func askOnce(ctx context.Context, addr string, rank int, token []byte) (from string, err error) {
	conn, err := secure.Dial(ctx, "tcp", addr, token)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	var word [4]byte
	if _, err := io.ReadFull(conn, word[:]); err != nil {
		return "", fmt.Errorf("rendezvous: no answer: %w", err)
	}
	if got := int(binary.LittleEndian.Uint32(word[:])); got != rank {
		return "", fmt.Errorf("rendezvous: rank %d answered: %w", got, errAnother)
	}
	local, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return local, err
}

// reachRank tries all of a rank's addresses at the same time.
func reachRank(ctx context.Context, slots chan struct{}, c *Card, token []byte) []reached {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin+time.Duration(len(c.Candidates))*time.Second, errors.New("no answer in time"))
	defer cancel()
	found := make([]reached, len(c.Candidates))
	var all sync.WaitGroup
	for i, cand := range c.Candidates {
		all.Go(func() {
			found[i] = reached{Candidate: i, Error: "not tried"}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			one, end := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer in %v", answerWithin))
			defer end()
			from, err := ask(one, joinPort(cand.Prefix.Addr(), c.Port), c.Rank, token)
			if err == nil && c.Datagrams > 0 {
				err = askByDatagram(one, joinPort(cand.Prefix.Addr(), c.Datagrams), c.Rank, token)
			}
			if err != nil {
				found[i].Error = plain(err)
				return
			}
			found[i] = reached{Candidate: i, From: from}
			time.AfterFunc(probeGrace, cancel)
		})
	}
	all.Wait()
	return found
}

// plain is the innermost reason, which names no port that is gone tomorrow.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

func joinPort(a netip.Addr, port int) string {
	return net.JoinHostPort(a.String(), strconv.Itoa(port))
}
