package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"
)

// shake is the first endpoint's word on the certificates, nil if it has none: what TLS
// has against a connection, etcd's client keeps to itself.
func (cfg *Config) shake(ctx context.Context) error {
	if len(cfg.Endpoints) == 0 {
		return nil
	}
	at, err := url.Parse(cfg.Endpoints[0])
	if err != nil || at.Scheme != "https" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	t := cfg.TLS.Clone()
	if t == nil {
		t = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.NextProtos = []string{"h2"}
	c, err := (&tls.Dialer{Config: t}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(0, 0)) })()
	// A server says what it thinks of the client's certificate after the handshake.
	// One that is content says its settings.
	_, err = c.Read(make([]byte, 1))
	return err
}

// ofCertificates: the one side does not take the other's, now or a second later.
func ofCertificates(err error) bool {
	var ours *tls.CertificateVerificationError
	var theirs *net.OpError // an alert
	return errors.As(err, &ours) || errors.As(err, &theirs) && theirs.Op == "remote error"
}
