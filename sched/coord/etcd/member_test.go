package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/patient"
)

// testElectionMillis is for a machine that is busy with other tests.
const testElectionMillis = 1000

// together starts n members.
func together(t *testing.T, n int) ([]*Embedded, map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all, err := Issue()
	if err != nil {
		t.Fatal(err)
	}
	peers, ports := map[string]string{}, make([]*Port, n)
	for i := range n {
		if ports[i], err = HoldPort(ctx, "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		peers[fmt.Sprint("m", i)] = ports[i].Addr
	}
	members, errs := make([]*Embedded, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		wg.Go(func() {
			members[i], errs[i] = StartMember(ctx, dir, MemberConfig{Name: fmt.Sprint("m", i), Peers: peers, Cluster: "test", Credentials: all, electionMillis: testElectionMillis})
			errs[i] = errors.Join(errs[i], ports[i].Release())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return members, peers
}

// A member whose others do not come gives up when it is told to.
func TestMemberAlone(t *testing.T) {
	t.Parallel()
	all, err := Issue()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	port, err := HoldPort(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Release()
	m, err := StartMember(ctx, t.TempDir(), MemberConfig{Name: "m0", Peers: map[string]string{"m0": port.Addr, "m1": "127.0.0.1:1"}, Cluster: "test", Credentials: all})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", m, err)
	}
}

// One of three members ends: what was said is there, leases live on, watches go on,
// and a stranger is no member.
func TestMembersSurviveOne(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	members, peers := together(t, 3)
	stores := make([]coord.Coordinator, 3)
	for i, m := range members {
		stores[i] = patient.New(m.Store("/psrt/x/"), nil)
	}
	session, err := coord.NewSession(ctx, stores[1], 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	w, err := stores[2].Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Put(ctx, "a", []byte("1"), session.Lease()); err != nil {
		t.Fatal(err)
	}
	for name, at := range peers {
		c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			if err = c.SetReadDeadline(time.Now().Add(30 * time.Second)); err == nil {
				_, err = c.Read(make([]byte, 1)) // TLS 1.3 says it after the handshake
			}
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("member %s lets a stranger in: %v", name, err)
		}
	}
	stores[0].Close()
	if err := members[0].Close(); err != nil { // the leader is any of them
		t.Fatal(err)
	}
	if _, err := stores[1].Put(ctx, "b", []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	kv, err := stores[2].Get(ctx, "a")
	if err != nil || string(kv.Value) != "1" || kv.Lease != session.Lease() {
		t.Errorf("a is %q under %x, %v", kv.Value, kv.Lease, err)
	}
	for _, want := range []string{"a", "b"} {
		select {
		case e, ok := <-w.Events():
			if !ok || e.Key != want {
				t.Fatalf("the watch says %v, %v, want %s", e, w.Err(), want)
			}
		case <-ctx.Done():
			t.Fatalf("the watch does not say %s", want)
		}
	}
	select {
	case <-session.Lost():
		t.Errorf("the lease is lost: %v", session.Err())
	default:
	}
	// One of three keeps nothing alone: calls wait, and are not answered wrongly. Its
	// watches end, so that who has one looks elsewhere, and none begins.
	alone := members[2].Store("/psrt/x/")
	defer alone.Close()
	silent, err := alone.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	stores[1].Close()
	members[1].Close()
	short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	if rev, err := stores[2].Put(short, "c", nil, 0); err == nil {
		t.Errorf("one of three members makes a change: revision %d", rev)
	}
	select {
	case <-silent.Events():
	case <-ctx.Done():
	}
	if err := silent.Err(); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("a watch of one of three members ends with %v", err)
	}
	if _, err := alone.Watch(ctx, "", 0); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("one of three members watches: %v", err)
	}
	alone.Close()
	stores[2].Close()
	members[2].Close()
}

// The suite of all coordinators, over two members of three.
func TestMembersConformance(t *testing.T) {
	t.Parallel()
	members, _ := together(t, 3)
	t.Cleanup(func() {
		for _, m := range members {
			m.Close()
		}
	})
	serial := 0
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		serial++
		prefix := fmt.Sprintf("/psrt/%d/", serial)
		p := coordtest.Pair{A: patient.New(members[0].Store(prefix), nil), B: patient.New(members[1].Store(prefix), nil)}
		t.Cleanup(func() { p.A.Close(); p.B.Close() })
		return p
	})
}

// A member that is taken out before it has a vote, or has not learnt of itself yet, has
// none: asking for it is no end of the process.
func TestVoteOfOneTakenOut(t *testing.T) {
	t.Parallel()
	members, peers := together(t, 3)
	for _, m := range members[:2] {
		t.Cleanup(func() { _ = m.Close() })
	}
	out := members[2]
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if !out.Votes() {
		t.Errorf("one of %v has no vote", peers)
	}
	asks := make(chan struct{})
	go func() {
		defer close(asks)
		for out.Votes() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	for err := errors.New("not tried"); err != nil; { // members that have only met refuse it for some seconds
		if err = members[0].Remove(ctx, uint64(out.e.Server.MemberID())); ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case <-asks:
	case <-out.Ended(): // its view of itself stays what it was
	}
	out.Votes()
	if ctx.Err() != nil {
		t.Error("it has a vote three minutes after it was taken out")
	}
	cancel()
	<-asks
}
