package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// tokens stand for the job's user on each call. An etcd that was started again knows none of
// those that it gave, and one of before 3.5 refuses even to give another to who shows it an
// old one, as its own client does: so a token is shown to all of its services but that.
type tokens struct {
	user, password string
	key            []byte // which the user may ask for

	asking chan struct{} // capacity 1: one call asks for one at a time
	mu     sync.Mutex
	token  string // "": none yet, or rights are not looked at
	asked  bool
}

const authService = "/etcdserverpb.Auth"

func newTokens(user, password, key string) *tokens {
	return &tokens{user: user, password: password, key: []byte(key), asking: make(chan struct{}, 1)}
}

// options have a client's connections show tokens.
func (k *tokens) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithPerRPCCredentials(k), grpc.WithChainUnaryInterceptor(k.unary), grpc.WithChainStreamInterceptor(k.stream)}
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: whether passwords may go
// over a connection without TLS is for who gives http:// as the address.
func (k *tokens) RequireTransportSecurity() bool { return false }

// GetRequestMetadata implements credentials.PerRPCCredentials. A uri is a service's.
func (k *tokens) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	token, _ := k.now()
	if token == "" || len(uri) > 0 && strings.HasSuffix(uri[0], authService) {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
}

func (k *tokens) now() (token string, asked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.token, k.asked
}

// renew asks for a token, if the one that was refused is still the newest. A call whose time is
// over does not wait for another's, and none asks longer than a connection may take.
func (k *tokens) renew(ctx context.Context, cc *grpc.ClientConn, refused string) error {
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if token, asked := k.now(); asked && token != refused {
		return nil
	}
	r, err := etcdserverpb.NewAuthClient(cc).Authenticate(ctx, &etcdserverpb.AuthenticateRequest{Name: k.user, Password: k.password})
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token, k.asked = r.GetToken(), true
	return nil
}

// staleToken says whether a call was refused because of its token.
func staleToken(err error) bool {
	e := rpctypes.Error(err)
	return errors.Is(e, rpctypes.ErrInvalidAuthToken) || errors.Is(e, rpctypes.ErrAuthOldRevision) || errors.Is(e, rpctypes.ErrUserEmpty)
}

// unary makes a call, and again with a new token where the old one is no good.
func (k *tokens) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if strings.HasPrefix(method, authService) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	token, asked := k.now()
	if asked {
		if err := invoke(ctx, method, req, reply, cc, opts...); !staleToken(err) {
			return err
		}
	}
	if err := k.renew(ctx, cc, token); err != nil {
		return err
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// stream begins a stream, whose token is looked at by a call before: what refuses a watch for
// an old one says that the user has no right.
func (k *tokens) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	asking, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// What it answers does not matter: an etcd that is away is the stream's to find.
	_, _ = etcdserverpb.NewKVClient(cc).Range(asking, &etcdserverpb.RangeRequest{Key: k.key, Serializable: true, CountOnly: true})
	return begin(ctx, desc, cc, method, opts...)
}
