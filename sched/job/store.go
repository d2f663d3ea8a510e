package job

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/coord/local"
	"psrt/sched/coord/patient"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// StoreConfig says where a job's keys are kept.
type StoreConfig struct {
	// Endpoints of the user's etcd. With none: in this process.
	Endpoints []string
	// Embedded keeps them in an etcd of this process, in Dir ("": a scratch), instead
	// of in its memory alone.
	Embedded bool
	Dir      string
	// CA, Cert and Key are PEM files; "" none.
	CA, Cert, Key  string
	User, Password string
	// Ranks: those of the job were started one by one, so that each is nobody's to keep
	// alive: a job with replicas then has several of them keep its store.
	Ranks bool
	// Note is told when the etcd is away and when it is back; may be nil.
	Note func(string)
}

// Endpoints are those of a --coordinator that names the user's etcd, else none.
func Endpoints(coordinator string) []string {
	if !strings.HasPrefix(coordinator, "http://") && !strings.HasPrefix(coordinator, "https://") {
		return nil
	}
	return strings.Split(coordinator, ",")
}

// Durable: the store outlives the processes of the job.
func (c *StoreConfig) Durable() bool { return len(c.Endpoints) > 0 }

// store is a coordinator and what ends it.
type store struct {
	coord.Coordinator
	end func() error
}

// Close ends the coordinator, and an etcd that is ours.
func (s *store) Close() error {
	return errors.Join(s.Coordinator.Close(), s.end())
}

// prefix is where a job's keys are in an etcd that many share: its token is the
// job's alone, and cannot be got back from it.
func prefix(token []byte) string {
	sum := sha256.Sum256(append([]byte("psrt job "), token...))
	return "/psrt/" + hex.EncodeToString(sum[:8]) + "/"
}

// openStore opens the store of the job with this token. first: it is rank 0's, who
// finds it empty, and leaves it so.
func openStore(ctx context.Context, cfg StoreConfig, token []byte, first bool) (coord.Coordinator, error) {
	switch {
	case cfg.Durable():
		return openEtcd(ctx, cfg, token, first)
	case cfg.Embedded:
		return openEmbedded(ctx, cfg, token)
	}
	return local.New(), nil
}

// openEmbedded keeps an etcd of this job in cfg.Dir, or in a scratch of its own.
func openEmbedded(ctx context.Context, cfg StoreConfig, token []byte) (coord.Coordinator, error) {
	done := func() error { return nil }
	if cfg.Dir == "" {
		scratch, err := launch.OpenScratch(os.TempDir())
		if err != nil {
			return nil, err
		}
		cfg.Dir, done = scratch.Path, scratch.Close
	}
	e, err := etcd.Start(ctx, filepath.Join(cfg.Dir, "etcd"), "")
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return &store{e.Store(prefix(token)), func() error { return errors.Join(e.Close(), done()) }}, nil
}

func openEtcd(ctx context.Context, cfg StoreConfig, token []byte, first bool) (coord.Coordinator, error) {
	secure := false
	for _, e := range cfg.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Path != "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, badInput("job: --coordinator %s: want https://HOST:PORT, several with commas; the user is in PSRT_ETCD_USER and PSRT_ETCD_PASSWORD", e)
		}
		secure = secure || u.Scheme == "https"
	}
	ec := etcd.Config{Endpoints: cfg.Endpoints, User: cfg.User, Password: cfg.Password, Prefix: prefix(token)}
	if secure {
		var err error
		if ec.TLS, err = clientTLS(cfg); err != nil {
			return nil, err
		}
	}
	s, err := etcd.Dial(ctx, ec)
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	if first { // a job with the same token may have been killed
		if err = vacant(ctx, s, vacantWithin); err == nil {
			err = s.Clear(ctx)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("job: %w", err), s.Close())
		}
	}
	p := patient.New(s, func(err error) {
		switch {
		case cfg.Note == nil:
		case err != nil:
			cfg.Note(fmt.Sprintf("the coordinator at %s is away: training goes on, changes wait (%v)", strings.Join(cfg.Endpoints, ","), err))
		default:
			cfg.Note("the coordinator is back")
		}
	})
	if !first {
		return p, nil
	}
	return &clearing{p, s, !cfg.Ranks}, nil
}

func clientTLS(cfg StoreConfig) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CA != "" {
		pem, err := os.ReadFile(cfg.CA)
		if err != nil {
			return nil, badInput("job: --tls-ca: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badInput("job: --tls-ca %s has no certificate in PEM", cfg.CA)
		}
	}
	if (cfg.Cert == "") != (cfg.Key == "") {
		return nil, badInput("job: --tls-cert and --tls-key belong together: give both or none")
	}
	if cfg.Cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return nil, badInput("job: --tls-cert, --tls-key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

func badInput(format string, args ...any) error {
	return &train.InputError{Err: fmt.Errorf(format, args...)}
}
