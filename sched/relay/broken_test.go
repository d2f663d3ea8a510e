package relay

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/fault"
	"psrt/rdma/sim"
	"psrt/sched/chain"
)

// breaking steps an end until its link breaks, sending meanwhile: what waits for
// nothing may not hear of an end.
func breaking(t *testing.T, e *end, send func()) error {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		send()
		n, err := e.step()
		if err != nil {
			return err
		}
		if n == 0 {
			e.q.Wait(time.Now().Add(time.Millisecond))
		}
	}
	t.Fatal("the link does not break")
	return nil
}

// mustName checks what a broken link says and does.
func mustName(t *testing.T, e *end, err error) {
	t.Helper()
	for _, want := range []string{"group 7", "server 3", "server 5"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if e.link.Err() != err || e.link.Flush() != err {
		t.Errorf("Err %v, Flush %v, want %v", e.link.Err(), e.link.Flush(), err)
	}
	if e.link.Send(&chain.Message{Kind: chain.Tell, Group: testGroup, From: e.link.cfg.Self, To: e.link.cfg.Peer}) {
		t.Error("a broken link takes messages")
	}
	if s := e.link.Stats(); s.Queued != 0 {
		t.Errorf("a broken link keeps messages: %+v", s)
	}
	e.link.Close()
	e.link.Close()
	if _, err := e.step(); err == nil {
		t.Error("a closed link goes on")
	}
}

// TestPeerGone ends the peer's end in the middle of messages, at either end.
func TestPeerGone(t *testing.T) {
	for name, open := range transports() {
		for _, dialler := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				d := open(t)
				da, db := d(), d()
				var got []*chain.Message
				r := rand.New(rand.NewPCG(seed(t), 4))
				take := func(m *chain.Message) { got = append(got, clone(m)) }
				a, b := joined(t, da, db, Options{RingBytes: minRing, BackBytes: minRing}, take, take)
				if !dialler {
					a, b = b, a
				}
				var sent []*chain.Message
				send := func() {
					for range 3 {
						if m := some(r, a.link.cfg.Self, a.link.cfg.Peer, 10000); a.link.Send(m) {
							sent = append(sent, m)
						}
					}
				}
				for len(got) < 20 {
					send()
					a.mustStep()
					b.mustStep()
				}
				b.link.Close()
				mustName(t, a, breaking(t, a, send))
				if !reflect.DeepEqual(got, sent[:len(got)]) {
					t.Error("what came is not the beginning of what was sent")
				}
			})
		}
	}
}

// TestRequestFails has each kind of request of a link fail.
func TestRequestFails(t *testing.T) {
	for _, rule := range []fault.Rule{
		{Op: rdma.OpWriteImm, Nth: 1, Fail: rdma.StatusRetryExceeded},
		{Op: rdma.OpWriteImm, Nth: 40, Lose: rdma.StatusRetryExceeded},
		{Op: rdma.OpWriteImm, Nth: 40, Fail: rdma.StatusRemoteAccess},
	} {
		d := simulated(t, sim.Config{})
		da, db := d(), d()
		s, err := fault.NewScript(rule)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		a, b := joined(t, fault.Wrap(da, s), db, Options{}, func(*chain.Message) {}, func(*chain.Message) { n++ })
		err = breaking(t, a, func() {
			a.link.Send(&chain.Message{Kind: chain.Tell, Group: testGroup, From: nodeA, To: nodeB})
			b.mustStep()
		})
		var e *rdma.Error
		if !errors.As(err, &e) || e.Status != max(rule.Fail, rule.Lose) {
			t.Errorf("%+v: %v", rule, err)
		}
		mustName(t, a, err)
		if s.Caught() != 1 || n >= rule.Nth+1 {
			t.Errorf("%+v: caught %d, %d messages came", rule, s.Caught(), n)
		}
	}
}

// TestBadUse: what cannot be, is said.
func TestBadUse(t *testing.T) {
	d := simulated(t, sim.Config{})
	for _, opt := range []Options{{RingBytes: minRing - 1}, {BackBytes: maxRing + 1}, {Depth: 3}, {QueueMessages: -1}, {QueueBytes: -1}, {MaxMessageBytes: 5}} {
		if l, err := New(d(), Config{Options: opt}); err == nil {
			l.Close()
			t.Errorf("%+v is taken", opt)
		}
	}
	a := newEnd(t, d(), Config{Self: nodeA, Peer: nodeB, Dials: true})
	if err := a.link.Ready(a.link.Offer()); err == nil {
		t.Error("ready without an endpoint")
	}
	good := a.link.Offer()
	for _, change := range []func(o *Offer){
		func(o *Offer) { o.Version, o.Newest = Newest+1, 0 },
		func(o *Offer) { o.Version, o.Newest = Oldest-1, 0 },
		func(o *Offer) { o.Ring.Len = minRing - 1 },
		func(o *Offer) { o.Ring.Len = maxRing + 1 },
		func(o *Offer) { o.SendBytes = -1 },
		func(o *Offer) { o.Depth = 0 },
		func(o *Offer) { o.Depth = maxDepth + 1 },
		func(o *Offer) { o.MaxMessageBytes = 0 },
	} {
		e := newEnd(t, d(), Config{Self: nodeB, Peer: nodeA})
		if err := e.link.Attach(e.ep); err != nil {
			t.Fatal(err)
		}
		o := good
		change(&o)
		err := e.link.Ready(o)
		if !errors.Is(err, ErrProtocol) {
			t.Fatalf("%+v: %v", o, err)
		}
		mustName(t, e, err)
	}
}

// TestTooLarge: a message beyond the lesser of both ends' limits breaks the link with
// a word on what to do, instead of being sent again for ever.
func TestTooLarge(t *testing.T) {
	d := simulated(t, sim.Config{})
	da, db := d(), d()
	nobody := func(*chain.Message) {}
	a := newEnd(t, da, Config{Self: nodeA, Peer: nodeB, Dials: true, On: nobody})
	b := newEnd(t, db, Config{Self: nodeB, Peer: nodeA, On: nobody, Options: Options{MaxMessageBytes: 100_000}})
	connect(t, a.ep, b.ep)
	for _, e := range []*end{a, b} {
		if err := e.link.Attach(e.ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.link.Ready(b.link.Offer()), b.link.Ready(a.link.Offer())); err != nil {
		t.Fatal(err)
	}
	m := chain.Message{Kind: chain.Data, Group: testGroup, From: nodeA, To: nodeB, Bytes: make([]byte, 10), Header: chain.Header{Kind: chain.Push, Size: 100_000}}
	if !a.link.Send(&m) {
		t.Fatal(a.link.Err())
	}
	m.Header.Size++
	if a.link.Send(&m) || !errors.Is(a.link.Err(), ErrTooLarge) {
		t.Fatalf("%v", a.link.Err())
	}
	mustName(t, a, a.link.Err())
}

// TestOther: messages for another node, or group, are not carried.
func TestOther(t *testing.T) {
	d := simulated(t, sim.Config{})
	da, db := d(), d()
	a, _ := joined(t, da, db, Options{}, func(*chain.Message) {}, func(*chain.Message) {})
	for _, m := range []chain.Message{
		{Kind: chain.Tell, Group: testGroup, To: chain.Node{Server: nodeB.Server, Gen: nodeB.Gen + 1}},
		{Kind: chain.Tell, Group: testGroup + 1, To: nodeB},
	} {
		if a.link.Send(&m) {
			t.Errorf("carried: %+v", m)
		}
	}
	if a.link.Err() != nil || a.link.Stats().Dropped != 2 {
		t.Errorf("%v, %+v", a.link.Err(), a.link.Stats())
	}
}
