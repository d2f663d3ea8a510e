package secure

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
)

// Fingerprint is the SHA-256 of a certificate. Peers learn it over an
// authenticated connection, and know by it whom they talk to afterwards.
type Fingerprint [sha256.Size]byte

// Identity is a key of this process's own and a certificate for it.
type Identity struct {
	cert tls.Certificate
	sum  Fingerprint
}

// NewIdentity makes one, like no other.
func NewIdentity() (*Identity, error) {
	cert, err := selfSigned()
	if err != nil {
		return nil, err
	}
	return &Identity{cert: cert, sum: sha256.Sum256(cert.Certificate[0])}, nil
}

// Fingerprint is what peers need for ClientConfig.
func (i *Identity) Fingerprint() Fingerprint { return i.sum }

// ServerConfig is for the side that has the identity. Nothing is known about
// who connects: that is for what is said over the connection.
func (i *Identity) ServerConfig(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{i.cert},
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,
	}
}

// errStranger is the end of a handshake with somebody else.
var errStranger = errors.New("secure: another process answers at the peer's address: its certificate is not the one that the peer told of")

// ClientConfig is for the side that connects, to the process with this
// fingerprint and to no other.
func ClientConfig(peer Fingerprint, protocol string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection does: there is no authority to ask
		NextProtos:         []string{protocol},
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 {
				return fmt.Errorf("%w (%d certificates instead of 1)", errStranger, len(s.PeerCertificates))
			}
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare(sum[:], peer[:]) != 1 {
				return errStranger
			}
			return nil
		},
	}
}
