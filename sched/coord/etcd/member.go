package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// Members that wait for each other: a leader that dies is missed after an election's
// time, and the next one leads within another. A process that gets no core for less
// than that is no reason for an election.
const (
	memberTickMillis     = 50
	memberElectionMillis = 500
)

// MemberConfig is one of several processes that keep an etcd together.
type MemberConfig struct {
	Name string
	// Peers are all members: their names, and where they listen for each other,
	// "host:port". All members begin together, with the same; one that is added later
	// (Joins) is given those of then, itself among them.
	Peers map[string]string
	Joins bool
	// Cluster is the name of their cluster: members of others are refused.
	Cluster string
	Credentials
	// electionMillis, of tests that are slow, is memberElectionMillis where it is 0.
	electionMillis uint
}

// StartMember starts a member, and waits until most of them are there.
func StartMember(ctx context.Context, dir string, m MemberConfig) (*Embedded, error) {
	e, err := BeginMember(dir, m)
	if err == nil {
		err = e.Ready(ctx)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// BeginMember starts a member, which answers the others when this returns, and those who
// ask it for something once it is Ready. Its data are in dir and outlive nobody: a member
// that has died is none again, so that nothing of it needs to reach a disk.
//
// Members that begin together should do so one behind the other: each asks all others
// first whether it was a member before, in turn, and waits a second for one that listens
// and does not answer yet, as long as that one asks in its turn.
func BeginMember(dir string, m MemberConfig) (*Embedded, error) {
	cfg, over, err := settings(dir)
	if err != nil {
		return nil, err
	}
	cfg.Name, cfg.InitialClusterToken = m.Name, m.Cluster
	cfg.TickMs, cfg.ElectionMs = memberTickMillis, memberElectionMillis
	if m.electionMillis > 0 {
		cfg.TickMs, cfg.ElectionMs = m.electionMillis/10, m.electionMillis
	}
	cfg.UnsafeNoFsync = true
	if m.Joins {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	for name, at := range m.Peers {
		u := url.URL{Scheme: "https", Host: at}
		if name == m.Name {
			cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{u}, []url.URL{u}
		}
		cfg.InitialCluster += "," + name + "=" + u.String()
	}
	all := strings.Split(cfg.InitialCluster, ",")[1:]
	slices.Sort(all)
	if cfg.InitialCluster = strings.Join(all, ","); m.Peers[m.Name] == "" {
		return nil, fmt.Errorf("etcd: member %q is none of %s", m.Name, cfg.InitialCluster)
	}
	// Whoever starts it may hold the port until it listens.
	cfg.SocketOpts.ReusePort = true
	if cfg.PeerTLSInfo, err = m.keep(dir); err != nil {
		return nil, err
	}
	return begin(dir, cfg, over)
}

// keep writes the credentials where etcd reads them.
func (c *Credentials) keep(dir string) (t transport.TLSInfo, err error) {
	t = transport.TLSInfo{
		TrustedCAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ClientCertAuth: true, ServerName: peerName,
		// The key is what a member proves itself by: it may have several addresses.
		SkipClientSANVerify: true,
	}
	for name, pem := range map[string][]byte{t.TrustedCAFile: c.CA, t.CertFile: c.Cert, t.KeyFile: c.Key} {
		if err := os.WriteFile(name, pem, 0o600); err != nil {
			return t, fmt.Errorf("etcd: %w", err)
		}
	}
	return t, nil
}
