package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
)

// awayStore is a store that is away.
type awayStore struct{ coord.Coordinator }

func (awayStore) Get(context.Context, string) (coord.KV, error) {
	return coord.KV{}, fmt.Errorf("%w: no leader", coord.ErrUnavailable)
}

// Who answers, and whose store does not, is told from who is not there.
func TestUnansweredByItsStore(t *testing.T) {
	token := []byte(strings.Repeat("token", 8))
	l, err := secure.Listen("tcp", "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	store := local.New()
	defer store.Close()
	s := remote.Serve(l, awayStore{store})
	_, err = Attach(t.Context(), l.Addr().String(), token, StoreConfig{})
	if err == nil || !strings.Contains(err.Error(), "etcdctl") || !strings.Contains(err.Error(), "no leader") || !strings.Contains(err.Error(), "training goes on") {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err = Attach(t.Context(), l.Addr().String(), token, StoreConfig{}); err == nil || strings.Contains(err.Error(), "goes on") {
		t.Errorf("nobody listens: %v", err)
	}
}

// A coordinator that says nothing is told of by the addresses that do not answer.
func TestUnanswered(t *testing.T) {
	token := []byte(strings.Repeat("token", 8))
	var stopped []string
	for range 2 { // as of a stopped process: connections are made, and nobody takes them
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		stopped = append(stopped, l.Addr().String())
	}
	l, err := secure.Listen("tcp", "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	there, late := l.Addr().String(), context.DeadlineExceeded
	for _, c := range []struct {
		addrs []string
		want  []string
	}{
		{stopped[:1], []string{"the coordinator at " + stopped[0], "rank 0", "within 3s", "kill -CONT"}},
		{[]string{stopped[0], there, stopped[1]}, []string{"of the 3 ranks", "at " + stopped[0] + ", " + stopped[1] + " do not answer", "those at " + there + " do, ", "within 3s"}},
		{stopped, []string{"none of the 2 ranks", stopped[1]}},
		{[]string{there}, []string{"takes connections", "most of them", "etcdctl"}},
		{[]string{"https://etcd:2379"}, []string{"the etcd at https://etcd:2379", "etcdctl"}},
	} {
		err := Unanswered(t.Context(), strings.Join(c.addrs, ","), token, 3*time.Second, late)
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) || !errors.Is(err, late) {
				t.Errorf("%v: %q is not in %v", c.addrs, w, err)
			}
		}
	}
	dead := fmt.Errorf("%w: connection refused", coord.ErrUnavailable) // nobody is there who could say that a job goes on
	if err := Unanswered(t.Context(), there, token, time.Second, dead); err.Error() != dead.Error() {
		t.Error(err)
	}
	wrong := errors.Join(secure.ErrToken, late) // it has answered, and refused
	if err := Unanswered(t.Context(), stopped[0], token, time.Second, wrong); err.Error() != wrong.Error() {
		t.Error(err)
	}
	other := errors.New("another")
	if err := Unanswered(t.Context(), there, token, time.Second, other); !errors.Is(err, other) || err.Error() != "another" {
		t.Error(err)
	}
}
