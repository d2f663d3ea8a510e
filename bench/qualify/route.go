package qualify

import (
	"net"
	"strings"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/tcp"
)

// inputError is the user's fault.
type inputError struct{ error }

func (e *inputError) Unwrap() error  { return e.error }
func (e *inputError) BadInput() bool { return true }

// controlOnly is what connections without endpoints are made with.
func controlOnly() []dial.Transport {
	return []dial.Transport{{Name: "control", CrossHost: true, Open: func() (rdma.Domain, error) { return tcp.New(tcp.Config{}) }}}
}

// routeTo is an address to listen on that the others can reach: the one from
// which this machine reaches the coordinator. No packet is sent.
func routeTo(coordinator string) string {
	if !strings.HasPrefix(coordinator, "unix:") {
		if c, err := net.Dial("udp", coordinator); err == nil {
			defer c.Close()
			return net.JoinHostPort(c.LocalAddr().(*net.UDPAddr).IP.String(), "0")
		}
	}
	return "127.0.0.1:0"
}
