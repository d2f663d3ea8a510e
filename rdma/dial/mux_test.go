package dial

import (
	"errors"
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
