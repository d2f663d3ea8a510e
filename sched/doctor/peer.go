package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma/secure"
)

const (
	connectWithin = 1500 * time.Millisecond
	answerWithin  = 2200 * time.Millisecond
	doctorWithin  = 3 * time.Second
)

// peer says what is wrong with the way to one, as far as it can be seen from here.
func (x *examiner) peer(p Peer) []Finding {
	f := Finding{Name: "peer", Peer: p.called(), State: OK, Asked: true}
	bad := func(state, figure, mend string) []Finding {
		f.State, f.Figure, f.Mend = state, figure, mend
		return []Finding{f}
	}
	if strings.HasPrefix(p.Addr, "/") {
		f.Figure = "on this host, by " + p.Addr
		return x.word(p, f, nil)
	}
	host, port := p.split()
	from, to, err := x.sourceTo(p)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return bad(Missing, fmt.Sprintf("the name %s does not resolve (%s)", host, dns.Err), "give its address, or add it to /etc/hosts")
	case err != nil:
		return bad(Missing, fmt.Sprintf("there is no route to %s (%v)", host, reason(err)), "ip route get "+host)
	}
	f.Figure = fmt.Sprintf("%s, from %s (%s)", to, from, interfaceOf(from))
	if to == from && !to.IsLoopback() && port == "" {
		return bad(Warn, f.Figure+": that is an address of this host itself", "give the peer's address; docker0's and the like are the same everywhere")
	}
	if all := x.byInterface(p, f, from, to); all != nil {
		return all
	}
	if port == "" {
		alive, _ := ping(x.ctx, to, smallPing)
		if !alive {
			f.Figure += "; it does not answer pings (which may be forbidden)"
		}
		return append([]Finding{f}, x.packets(p, from, to, nil)...)
	}
	conn, err := x.connect(p, net.JoinHostPort(to.String(), port))
	if err != nil {
		return []Finding{x.noConnection(f, to, port, err)}
	}
	defer conn.Close()
	return x.word(p, f, func() []Finding { return x.packets(p, from, to, conn) })
}

func (x *examiner) connect(p Peer, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(x.ctx, connectWithin)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// noConnection says why there is none.
func (x *examiner) noConnection(f Finding, to netip.Addr, port string, err error) Finding {
	f.State = Missing
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		f.Figure += fmt.Sprintf(": dead: the host is there, and nobody listens at port %s", port)
		f.Mend = "start it; look at what it said last, and at dmesg there (out of memory)"
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		f.Figure += fmt.Sprintf(": unreachable: %v: the host is down, or not in this network", reason(err))
		f.Mend = fmt.Sprintf("ip route get %s; ip neigh; --interface", to)
	default:
		alive, _ := ping(x.ctx, to, smallPing)
		if alive {
			f.Figure += fmt.Sprintf(": the host answers pings, and port %s nothing at all: a firewall", port)
			f.Mend = fmt.Sprintf("open tcp port %s from %s there", port, f.Peer)
			break
		}
		f.Figure += fmt.Sprintf(": unreachable: no answer in %v: the host is down, cut off, or behind a firewall (%v)", connectWithin, reason(err))
		f.Mend = fmt.Sprintf("ping %s; ip route get %s", to, to)
	}
	return f
}

// word asks a process for a word: one that is stopped takes connections, and says
// nothing.
func (x *examiner) word(p Peer, f Finding, more func() []Finding) (all []Finding) {
	if more != nil {
		rest := make(chan []Finding, 1)
		go func() { rest <- more() }()
		defer func() { all = append(all, <-rest...) }()
	}
	network := "tcp"
	addr := p.Addr
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	ctx, cancel := context.WithTimeout(x.ctx, answerWithin)
	defer cancel()
	began := time.Now()
	var err error
	if p.Token != nil {
		var c net.Conn
		if c, err = secure.Dial(ctx, network, addr, p.Token); err == nil {
			_ = c.Close()
		}
	} else {
		err = hello(ctx, network, addr)
	}
	switch {
	case err == nil:
		f.Figure += fmt.Sprintf(", answers in %.1f ms", float64(time.Since(began).Microseconds())/1000)
	case errors.Is(err, secure.ErrToken):
		f.State, f.Figure, f.Mend = Warn, f.Figure+": it has another token", "the same --token-file everywhere, or another job listens there"
	case ctx.Err() != nil:
		f.State, f.Figure = Missing, f.Figure+fmt.Sprintf(": stopped: its connection is taken by the kernel, and the process says nothing for %v (SIGSTOP, a debugger, swapping, or no core)", answerWithin)
		f.Mend = "there: ps -o pid,stat,wchan,comm; kill -CONT PID"
		return []Finding{f}
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		f.State, f.Figure, f.Mend = Missing, f.Figure+": dead: nobody listens there any more", "start it; look at what it said last, and at dmesg there (out of memory)"
		return []Finding{f}
	default:
		f.State, f.Figure = Warn, f.Figure+fmt.Sprintf(": it is not psrt, or another version (%v)", reason(err))
	}
	all = []Finding{f}
	if err == nil && p.Doctor != "" {
		all = append(all, x.theirs(p)...)
	}
	return all
}

// hello begins a conversation that needs no secret; whatever comes back is a sign
// of life.
func hello(ctx context.Context, network, addr string) error {
	raw, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	heard := &heard{Conn: raw}
	c := tls.Client(heard, &tls.Config{InsecureSkipVerify: true}) // nothing is said to it
	err = c.HandshakeContext(ctx)
	_ = raw.Close()
	if heard.any {
		return nil
	}
	return err
}

// heard notes whether anything came.
type heard struct {
	net.Conn
	any bool
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.any = h.any || n > 0
	return n, err
}

// theirs is what a rank's own doctor finds wrong there.
func (x *examiner) theirs(p Peer) (all []Finding) {
	var found []Finding
	err := p.Get(x.ctx, p.Doctor, "", doctorWithin, func(r io.Reader, _ http.Header) error { return json.NewDecoder(r).Decode(&found) })
	if err != nil {
		return []Finding{{Name: "its doctor", Peer: p.called(), State: Warn, Figure: reason(err).Error()}}
	}
	for _, f := range found {
		if f.State != OK {
			f.Peer, f.Asked, f.theirs = p.called(), false, true
			all = append(all, f)
		}
	}
	return all
}

// reason is the innermost that names no port of ours.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// interfaceOf has an address.
func interfaceOf(a netip.Addr) string {
	a = a.WithZone("") // which the list of addresses has not
	list, err := net.Interfaces()
	if err != nil {
		return "an interface"
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, x := range addrs {
			if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().Unmap() == a {
				return i.Name
			}
		}
	}
	return "an interface"
}

// byInterface says whether the way to a peer is the one that the user names. nil:
// it is, or none is named.
func (x *examiner) byInterface(p Peer, f Finding, from, to netip.Addr) []Finding {
	only := x.cfg.Interface
	if only == "" || to.IsLoopback() {
		return nil
	}
	name := interfaceOf(from)
	within, err := netip.ParsePrefix(only)
	if name == only || err == nil && within.Contains(from) {
		return nil
	}
	f.State = Missing
	f.Figure = fmt.Sprintf("wrong interface: %s is reached by %s (%s), not by %s", to, name, from, only)
	f.Mend = "--interface " + name + ", or leave it out; ip route get " + to.String()
	return []Finding{f}
}
