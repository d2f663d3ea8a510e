package secure

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// keepAlive finds a vanished machine on an idle control connection within
// about 11 s; a dead process is seen at once by its closed socket.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// Dial connects to a Listener and returns when both sides have proved the
// token, when ctx ends, or after HandshakeTimeout if ctx has no deadline.
func Dial(ctx context.Context, network, addr string, token []byte) (net.Conn, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, HandshakeTimeout)
		defer cancel()
	}
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	raw, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("secure: connect to %s: %w; check that the peer runs and the address is right", addr, err)
	}
	c := tls.Client(raw, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // identity is proved by the token, see doc.go
		NextProtos:         []string{protocolName},
	})
	if err := clientHandshake(ctx, c, token); err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, fmt.Errorf("secure: handshake with %s: %w", addr, err)
	}
	return c, nil
}

func clientHandshake(ctx context.Context, c *tls.Conn, token []byte) error {
	// The end of ctx, and not a deadline of the connection's own, ends the waits:
	// then ctx.Err says why.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if err := proveAsClient(c, token); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return c.SetDeadline(time.Time{})
}
