package dial

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"psrt/rdma"
)

// The lane serves one peer on each of two domains.
func TestMuxTwoDomains(t *testing.T) {
	serverLane := newLane(t)
	var js []joined
	var lanes []*lane
	for _, transport := range []Transport{near(openLoopback), far()} {
		server := newHost(t, Config{Transports: []Transport{transport}})
		l := listen(t, server, "127.0.0.1:0")
		cl := newLane(t)
		j := join(t, newHost(t, Config{Transports: []Transport{transport}}), server, l, cl, serverLane, 1)
		if j.clientErr != nil || j.servErr != nil {
			t.Fatal(j.clientErr, j.servErr)
		}
		js, lanes = append(js, j), append(lanes, cl)
	}
	if len(*serverLane.mux.queues.Load()) != 2 {
		t.Fatal("the test needs two queues")
	}
	for range 200 {
		for i := range js {
			exchange(t, js[i], lanes[i], serverLane)
		}
	}
	begin := time.Now()
	for time.Since(begin) < 30*time.Millisecond { // spurious returns are allowed
		if err := serverLane.mux.Wait(begin.Add(30 * time.Millisecond)); err != nil {
			if !errors.Is(err, rdma.ErrDeadline) {
				t.Fatal(err)
			}
			break
		}
	}
	if took := time.Since(begin); took < 25*time.Millisecond || took > 30*time.Second {
		t.Errorf("an idle Wait of 30 ms took %v", took)
	}
}

// tended is a queue that tells how it was asked.
type tended struct {
	rdma.Queue
	asked []string
}

func (q *tended) Poll(cs []rdma.Completion) int {
	q.asked = append(q.asked, "poll")
	return q.Queue.Poll(cs)
}

func (q *tended) Take(cs []rdma.Completion) int {
	q.asked = append(q.asked, "take")
	return copy(cs, []rdma.Completion{{ID: 7}})
}

// Take leaves it to those who move bytes where a queue has somebody for that, and polls
// those that have nobody.
func TestMuxTake(t *testing.T) {
	m := NewMux(16)
	defer m.Close()
	var queues []rdma.Queue
	for range 2 {
		d, err := openLoopback()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		q, err := m.Queue(d)
		if err != nil {
			t.Fatal(err)
		}
		queues = append(queues, q)
	}
	with, without := &tended{Queue: queues[0]}, &tended{Queue: queues[1]}
	m.queues.Store(&[]muxQueue{{queue: with}, {queue: struct{ rdma.Queue }{without}}})
	var cs [4]rdma.Completion
	if n := m.Take(cs[:]); n != 1 || cs[0].ID != 7 {
		t.Errorf("Take: %d completions, the first %+v, want one of ID 7", n, cs[0])
	}
	if n := m.Poll(cs[:]); n != 0 {
		t.Errorf("Poll: %d completions, want none", n)
	}
	if a, b := fmt.Sprint(with.asked), fmt.Sprint(without.asked); a != "[take poll]" || b != "[poll poll]" {
		t.Errorf("who has somebody was asked %s, who has nobody %s", a, b)
	}
}

func TestMuxWakeAndClose(t *testing.T) {
	for domains := range 3 {
		m := NewMux(16)
		for range domains {
			d, err := openLoopback()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if _, err := m.Queue(d); err != nil {
				t.Fatal(err)
			}
		}
		far := time.Now().Add(time.Minute)
		// Settle what making the queues woke.
		for m.Wait(time.Now().Add(5*time.Millisecond)) == nil {
		}
		m.Wake()
		if err := m.Wait(far); err != nil {
			t.Fatalf("%d domains: Wake before Wait: %v", domains, err)
		}
		ended := make(chan error, 1)
		wait := func() { ended <- m.Wait(far) }
		for m.Wait(time.Now().Add(5*time.Millisecond)) == nil {
		}
		go wait()
		time.Sleep(10 * time.Millisecond)
		m.Wake()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d domains: Wake did not end Wait", domains)
		}
		// A queue added while the lane waits must be waited on too.
		for m.Wait(time.Now().Add(5*time.Millisecond)) == nil {
		}
		go wait()
		time.Sleep(10 * time.Millisecond)
		d, err := openLoopback()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := m.Queue(d); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%d domains: a new queue did not end Wait", domains)
		}
		go func() {
			err := m.Wait(far)
			for err == nil { // spurious returns are allowed
				err = m.Wait(far)
			}
			ended <- err
		}()
		time.Sleep(10 * time.Millisecond)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, rdma.ErrClosed) {
				t.Fatalf("Wait during Close: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d domains: Close did not end Wait", domains)
		}
		if err := m.Wait(far); !errors.Is(err, rdma.ErrClosed) {
			t.Fatalf("Wait after Close: %v", err)
		}
		if _, err := m.Queue(d); !errors.Is(err, rdma.ErrClosed) {
			t.Fatalf("Queue after Close: %v", err)
		}
	}
}
