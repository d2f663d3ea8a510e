package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Credentials are what the members of one cluster prove themselves to each other with,
// in PEM. Whoever has them is a member: they go to members alone.
type Credentials struct{ CA, Cert, Key []byte }

// peerName is in the members' certificate, whatever their addresses are.
const peerName = "psrt-keeper"

// They hold for longer than a job lasts, and for clocks that differ.
const (
	validFor  = 10 * 365 * 24 * time.Hour
	validPast = 24 * time.Hour
)

// Issue makes the credentials of a new cluster. The authority's key is forgotten.
func Issue() (c Credentials, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("etcd: the members' certificate: %w", err)
		}
	}()
	now := time.Now()
	of := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-validPast), NotAfter: now.Add(validFor)}
	}
	authority, member := of(1, "psrt"), of(2, peerName)
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	member.KeyUsage, member.DNSNames = x509.KeyUsageDigitalSignature, []string{peerName}
	member.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)
	if err != nil {
		return c, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, member, authority, &key.PublicKey, signer)
	if err != nil {
		return c, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	text := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return Credentials{CA: text("CERTIFICATE", ca), Cert: text("CERTIFICATE", cert), Key: text("PRIVATE KEY", secret)}, nil
}
