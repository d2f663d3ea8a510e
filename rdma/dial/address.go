package dial

import (
	"fmt"
	"net"
	"strings"
)

// CheckAddress says what is wrong with an address that shall be dialed: "host:port",
// "[IPv6]:port" or "unix:PATH". It looks nothing up but the name of a port.
func CheckAddress(addr string) error { return checkAddress(addr, false) }

// CheckCoordinator is CheckAddress for where a coordinator is, which may be "tcp:host:port", too.
func CheckCoordinator(addr string) error {
	if rest, ok := strings.CutPrefix(addr, "tcp:"); ok && !strings.HasPrefix(rest, "//") {
		return CheckAddress(rest)
	}
	return CheckAddress(addr)
}

// CheckListen is CheckAddress for an address to listen at, where port 0 is any free one.
func CheckListen(addr string) error { return checkAddress(addr, true) }

func checkAddress(addr string, listen bool) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("address %q %s: want HOST:PORT, [IPv6]:PORT or unix:/path", addr, fmt.Sprintf(format, args...))
	}
	scheme, _, isURL := strings.Cut(addr, "://")
	path, isUnix := strings.CutPrefix(addr, "unix:")
	switch {
	case addr == "":
		return bad("is empty")
	case isURL:
		return bad("begins with %q, which psrt does not speak here", scheme+"://")
	case isUnix && path == "":
		return bad("has no path")
	case isUnix:
		return nil
	case strings.ContainsAny(addr, " \t\r\n/,"):
		return bad("holds a space, a slash or a comma")
	case net.ParseIP(addr) != nil && strings.Contains(addr, ":"):
		return bad("has no port, or no brackets around an IPv6 address")
	}
	host, port, err := net.SplitHostPort(addr)
	switch {
	case err != nil && strings.Count(addr, ":") > 1 && !strings.HasSuffix(addr, "]"):
		return bad("has more than one colon outside brackets")
	case err != nil || port == "":
		return bad("has no port")
	case strings.Contains(host, ":") && !isIPv6(host):
		return bad("has %q in brackets, which is no IPv6 address", host)
	}
	n, err := net.LookupPort("tcp", port)
	switch {
	case err != nil:
		return bad("has port %q, which is none from 1 to 65535", port)
	case n == 0 && !listen:
		return bad("has port 0, at which nothing listens")
	}
	return nil
}

// isIPv6 takes a zone, too.
func isIPv6(host string) bool {
	host, _, _ = strings.Cut(host, "%")
	return net.ParseIP(host) != nil
}
