package dial

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"psrt/rdma"
	"psrt/rdma/tcp"
	"psrt/rdma/verbs"
)

// Auto lets dial choose the transport.
const Auto = "auto"

// Config of a Host.
type Config struct {
	// Transport is Auto (also ""), or the name of the only one allowed.
	Transport string
	// Token is the job's secret, the same in all its processes, random, at
	// least secure.MinToken bytes.
	Token []byte
	// Listen is the "host:port" of the tcp and quic transports' data connections. Empty:
	// the host that Host.Listen was given, any port; and where Host.Listen was
	// never called, none: this process only connects.
	Listen string
	// Streams is the tcp transport's number of connections per direction.
	Streams int
	// Cover says which of the tcp transport's connections are under TLS.
	Cover   Cover
	Devices Devices
	// StepTimeout bounds every step of a handshake; 0 means 10 s. Between a
	// hello and its answer lies the application, which may take as long.
	StepTimeout time.Duration
	// OnReject is told of every connection refused by a Listener, or ended because what it
	// brought was damaged (wire.ErrSum): its address and why. Called by several goroutines.
	OnReject func(addr net.Addr, err error)
	// OnProve is told of every address from which a peer has proved the token, or at
	// which one has. Likewise.
	OnProve func(addr net.Addr)
	// OnPanic is told of a panic in a goroutine of this host's transports and
	// connections: whoever is inside a process that is not its own cannot let it end.
	// Nothing of the Host is of use then. nil: the process ends.
	OnPanic func(any)
	// Transports replaces the built-in ones, best first.
	Transports []Transport
}

// Cover is tcp.Cover.
type Cover = tcp.Cover

// CoverFar: what leaves the host; CoverNone: nothing, where the peer agrees.
const (
	CoverFar  = tcp.CoverFar
	CoverNone = tcp.CoverNone
)

// Devices says which RDMA devices may be used; the zero value: all that have
// an active port.
type Devices = verbs.Selection

// Transport is a way of reaching peers that a Host may open.
type Transport struct {
	Name string
	// CrossHost: it reaches other machines. One that does not is chosen only
	// when both processes share kernel, user and namespaces.
	CrossHost bool
	Open      func() (rdma.Domain, error)
	// Rails, instead of Open, is for a transport with one Domain per device;
	// each is a Rail. It is called once; an error says why this process cannot
	// offer the transport.
	Rails func() ([]rdma.Domain, error)
}

const (
	defaultStepTimeout = 10 * time.Second
	// controlTries bounds how often a control connection is opened for one Dial.
	controlTries = 3
	// controlPause is the mean time between two.
	controlPause = 100 * time.Millisecond
)

func (c *Config) complete(builtin []Transport) error {
	if c.Transport == "" {
		c.Transport = Auto
	}
	if c.StepTimeout <= 0 {
		c.StepTimeout = defaultStepTimeout
	}
	if c.Transports == nil {
		c.Transports = builtin
	}
	names := []string{Auto}
	for _, t := range c.Transports {
		names = append(names, t.Name)
	}
	if !slices.Contains(names, c.Transport) {
		return fmt.Errorf("dial: unknown transport %q; use one of %s", c.Transport, strings.Join(names, ", "))
	}
	return nil
}

// splitAddr turns "host:port" and "unix:PATH" into what package net takes.
func splitAddr(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

func joinAddr(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}
