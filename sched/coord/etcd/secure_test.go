package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"psrt/sched/coord"
)

// authority signs certificates of one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{pool: x509.NewCertPool()}
	a.cert, a.key = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = writePEM(t, name+".ca", "CERTIFICATE", der)
	return a
}

// sign gives the files of a new certificate and its key.
func (a *authority) sign(t *testing.T, name string) (cert, key string) {
	k := newKey(t)
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, name+".pem", "CERTIFICATE", der), writePEM(t, name+".key", "EC PRIVATE KEY", raw)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// startSecure is an etcd as users guard theirs: TLS on both sides, users and roles.
// psrt may use what is below /psrt/, nobody what is elsewhere.
func startSecure(t *testing.T, a *authority) (address string) {
	cert, key := a.sign(t, "etcd")
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "data")
	cfg.TickMs, cfg.ElectionMs = tickMillis, electionMillis
	cfg.MaxRequestBytes = requestBytes
	cfg.BcryptCost = 4 // the least: under the race detector a password takes a second else
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(t.TempDir(), "peer")}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	cfg.InitialCluster = cfg.Name + "=http://127.0.0.1:1"
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: a.file, ClientCertAuth: true}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready")
	}
	address = "https://" + e.Clients[0].Addr().String()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, TLS: a.client(t), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "rootword"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "jobs"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "jobs", "/psrt/", clientv3.GetPrefixRangeEnd("/psrt/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "psrt", "word"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "psrt", "jobs"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return address
}

func (a *authority) client(t *testing.T) *tls.Config {
	cert, key := a.sign(t, "job")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.pool, Certificates: []tls.Certificate{pair}}
}

// All that a job does works over an etcd with certificates and rights. The suite of
// coordinators has deadlines that TLS and a busy machine do not keep.
func TestSecure(t *testing.T) {
	a := newAuthority(t, "own")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Dial(ctx, Config{Endpoints: []string{startSecure(t, a)}, TLS: a.client(t), User: "psrt", Password: "word", Prefix: "/psrt/job/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Watch(ctx, "a/", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lease, err := s.Grant(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := s.CompareAndPut(ctx, "a/x", []byte("1"), 0, lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CompareAndPut(ctx, "a/x", []byte("2"), rev-1, lease); !errors.Is(err, coord.ErrConflict) {
		t.Errorf("a put at another revision: %v", err)
	}
	if kvs, _, err := s.List(ctx, "a/"); err != nil || len(kvs) != 1 || string(kvs[0].Value) != "1" {
		t.Errorf("the list is %v, %v", kvs, err)
	}
	if err := errors.Join(s.KeepAlive(ctx, lease), s.Revoke(ctx, lease)); err != nil {
		t.Error(err)
	}
	for _, deleted := range []bool{false, true} {
		select {
		case e := <-w.Events():
			if e.Key != "a/x" || e.Deleted != deleted {
				t.Errorf("the watch tells %+v", e)
			}
		case <-ctx.Done():
			t.Fatal("the watch tells nothing")
		}
	}
}

// Who may not is told so when the job starts, within the time for it, with the
// flags to look at.
func TestRefused(t *testing.T) {
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	address := startSecure(t, own)
	bare := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: own.pool}
	for name, c := range map[string]struct {
		Config
		says string
	}{
		"no certificate":          {Config{TLS: bare, User: "psrt", Password: "word", Prefix: "/psrt/"}, "certificate required"},
		"a certificate of others": {Config{TLS: other.client(t), User: "psrt", Password: "word", Prefix: "/psrt/"}, "unknown authority"},
		// The name in the certificate counts then.
		"no user":                    {Config{TLS: own.client(t), Prefix: "/psrt/"}, "permission denied"},
		"another password":           {Config{TLS: own.client(t), User: "psrt", Password: "guess", Prefix: "/psrt/"}, "invalid user ID or password"},
		"keys that the role has not": {Config{TLS: own.client(t), User: "psrt", Password: "word", Prefix: "/others/"}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			c.Endpoints = []string{address}
			var err error
			for range 20 { // dialTimeout is short for a machine whose cores others have
				var s *Store
				if s, err = Dial(t.Context(), c.Config); err == nil {
					s.Close()
					t.Fatal("it was let in")
				}
				if strings.Contains(err.Error(), c.says) || !errors.Is(err, context.DeadlineExceeded) {
					break
				}
			}
			if !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "--tls-cert") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q: it names no address, or no remedy, or not that %q", err, c.says)
			}
		})
	}
}
