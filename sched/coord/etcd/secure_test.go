package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/etcd/etcdtest"
)

// All that a job does works over an etcd with certificates and rights. The suite of
// coordinators has deadlines that TLS and a busy machine do not keep.
func TestSecure(t *testing.T) {
	a := etcdtest.NewAuthority(t, "own")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Dial(ctx, Config{Endpoints: []string{etcdtest.Start(t, a)}, TLS: a.Client(t), User: etcdtest.User, Password: etcdtest.Password, Prefix: etcdtest.Prefix + "job/"})
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
	own, other := etcdtest.NewAuthority(t, "own"), etcdtest.NewAuthority(t, "other")
	address := etcdtest.Start(t, own)
	bare := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: own.Pool}
	for name, c := range map[string]struct {
		Config
		says, remedy string
	}{
		"no certificate":          {Config{TLS: bare, User: etcdtest.User, Password: etcdtest.Password, Prefix: etcdtest.Prefix}, "certificate required", "--tls-cert"},
		"no certificate, no user": {Config{TLS: bare, Prefix: etcdtest.Prefix}, "certificate required", "--tls-cert"},
		"a certificate of others": {Config{TLS: other.Client(t), User: etcdtest.User, Password: etcdtest.Password, Prefix: etcdtest.Prefix}, "unknown authority", "--tls-ca"},
		// The name in the certificate counts then.
		"no user":                    {Config{TLS: own.Client(t), Prefix: etcdtest.Prefix}, "permission denied", "--tls-cert"},
		"another password":           {Config{TLS: own.Client(t), User: etcdtest.User, Password: "guess", Prefix: etcdtest.Prefix}, "invalid user ID or password", "PSRT_ETCD_PASSWORD"},
		"keys that the role has not": {Config{TLS: own.Client(t), User: etcdtest.User, Password: etcdtest.Password, Prefix: "/others/"}, "permission denied", "--prefix /others/"},
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
			if !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q: it names no address, or no remedy, or not that %q", err, c.says)
			}
		})
	}
}
