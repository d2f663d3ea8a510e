package etcdtest

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Who may use what is below Prefix. Nobody but root may use what is elsewhere.
const (
	User, Password = "psrt", "word"
	Prefix         = "/psrt/"
)

// Start runs an etcd in this process, until the test ends: at address, "https://host:port",
// it lets in whom a has signed for, and shows what a has signed, too.
func Start(t *testing.T, a *Authority) (address string) {
	t.Helper()
	cert, key := a.Sign(t, "etcd")
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "data")
	cfg.TickMs, cfg.ElectionMs = 10, 50 // the only member waits for nobody
	cfg.BcryptCost = 4                  // the least: under the race detector a password takes a second else
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(t.TempDir(), "peer")}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	cfg.InitialCluster = cfg.Name + "=http://127.0.0.1:1"
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: a.File, ClientCertAuth: true}
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
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, TLS: a.Client(t), Logger: zap.NewNop()})
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
			_, err := c.RoleGrantPermission(ctx, "jobs", Prefix, clientv3.GetPrefixRangeEnd(Prefix), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, User, Password); return err },
		func() error { _, err := c.UserGrantRole(ctx, User, "jobs"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return address
}
