package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

// remedy says what to do about a Dial that failed: with the flag or variable that the error
// is about, and with all of them where it could be any.
func (cfg *Config) remedy(err error) string {
	var ours *tls.CertificateVerificationError
	var theirs *net.OpError
	var plain tls.RecordHeaderError
	var said rpctypes.EtcdError
	errors.As(err, &said)
	switch {
	case errors.As(err, &ours):
		return "give --tls-ca the authority of etcd's certificate, and --coordinator a name that is in it"
	case errors.As(err, &theirs) && theirs.Op == "remote error":
		return "give --tls-cert and --tls-key a certificate of an authority that etcd trusts (its --trusted-ca-file)"
	case errors.As(err, &plain):
		return "say --coordinator http://… where etcd has no TLS"
	case said.Code() == codes.PermissionDenied:
		return fmt.Sprintf("give %s the right to read and write the prefix %s (etcdctl role grant-permission ROLE readwrite --prefix %s), or name another user by PSRT_ETCD_USER and PSRT_ETCD_PASSWORD", cfg.who(), cfg.Prefix, cfg.Prefix)
	case strings.Contains(err.Error(), rpctypes.ErrAuthFailed.Error()), strings.Contains(err.Error(), rpctypes.ErrUserEmpty.Error()):
		return "check PSRT_ETCD_USER and PSRT_ETCD_PASSWORD"
	case strings.Contains(err.Error(), "server preface"): // gRPC's words keep no cause
		return "say --coordinator https://… where etcd has TLS"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()):
		return "check that etcd runs there (etcdctl endpoint health), and that --coordinator names its client address, with https:// or http:// as it has it"
	}
	return fmt.Sprintf("check --coordinator, --tls-ca, --tls-cert, --tls-key, PSRT_ETCD_USER, PSRT_ETCD_PASSWORD and the user's rights on %s", cfg.Prefix)
}

// who is whom etcd takes the client for.
func (cfg *Config) who() string {
	if cfg.User != "" {
		return "user " + cfg.User
	}
	return "the user whose name is in --tls-cert's certificate"
}
