package secure

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"
)

// MinToken is the shortest token accepted, in bytes: 128 random bits.
const MinToken = 16

// HandshakeTimeout bounds a listener's patience with one stranger, and a
// dialer's whose context has no deadline.
const HandshakeTimeout = 5 * time.Second

// ErrToken says that the two sides do not hold the same token.
var ErrToken = errors.New("secure: token mismatch")

const (
	exporterLabel   = "EXPORTER-psrt-job-token-v1"
	protocolName    = "psrt-control/1"
	verdictAccepted = 1
	verdictRefused  = 2
)

func checkToken(token []byte) error {
	if len(token) < MinToken {
		return fmt.Errorf("secure: the job token has %d bytes, at least %d are needed: use random bytes, e.g. 32 from /dev/urandom", len(token), MinToken)
	}
	return nil
}

func proof(c *tls.Conn, token []byte, side string) ([]byte, error) {
	state := c.ConnectionState()
	material, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return nil, fmt.Errorf("secure: TLS exporter: %w", err)
	}
	m := hmac.New(sha256.New, token)
	m.Write([]byte(side))
	m.Write([]byte{0})
	m.Write(material)
	return m.Sum(nil), nil
}

func proveAsClient(c *tls.Conn, token []byte) error {
	mine, err := proof(c, token, "client")
	if err != nil {
		return err
	}
	if _, err := c.Write(mine); err != nil {
		return fmt.Errorf("secure: send proof: %w", err)
	}
	var verdict [1]byte
	if _, err := io.ReadFull(c, verdict[:]); err != nil {
		return fmt.Errorf("secure: wait for the peer's verdict: %w", err)
	}
	if verdict[0] != verdictAccepted {
		return fmt.Errorf("%w: the peer refused ours: start both sides with the same job token", ErrToken)
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return fmt.Errorf("secure: wait for the peer's proof: %w", err)
	}
	want, err := proof(c, token, "server")
	if err != nil {
		return err
	}
	if !hmac.Equal(theirs, want) {
		return fmt.Errorf("%w: the peer did not prove that it holds ours: something else listens at this address", ErrToken)
	}
	return nil
}

func proveAsServer(c *tls.Conn, token []byte) error {
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return fmt.Errorf("secure: wait for the dialer's proof: %w", err)
	}
	want, err := proof(c, token, "client")
	if err != nil {
		return err
	}
	if !hmac.Equal(theirs, want) {
		// Best effort: the dialer learns that it was refused, not only cut off.
		_, _ = c.Write([]byte{verdictRefused})
		return fmt.Errorf("%w: the dialer's proof is wrong: it was started with another job token", ErrToken)
	}
	mine, err := proof(c, token, "server")
	if err != nil {
		return err
	}
	if _, err := c.Write(append([]byte{verdictAccepted}, mine...)); err != nil {
		return fmt.Errorf("secure: send proof: %w", err)
	}
	return nil
}
