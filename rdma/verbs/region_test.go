package verbs_test

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/mem"
)

// slowly is memory whose registration lasts until it is let go on.
type slowly struct {
	rdma.Memory
	begun, goOn chan struct{}
}

// DMABuf is asked in the middle of it.
func (m slowly) DMABuf() (int, int64, bool) {
	close(m.begun)
	<-m.goOn
	return -1, 0, false
}

type registered struct {
	region rdma.Region
	err    error
}

func registerSlowly(t *testing.T, d rdma.Domain) (m slowly, done chan registered) {
	t.Helper()
	a, err := mem.New(mem.Config{Size: 1 << 16, Node: -1, Purpose: "verbs test", Huge: "never"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	m, done = slowly{a, make(chan struct{}), make(chan struct{})}, make(chan registered, 1)
	go func() {
		r, err := d.Register(m, rdma.AccessAll, "slow")
		done <- registered{r, err}
	}()
	<-m.begun
	return m, done
}

// TestRegisterBeside: while memory is pinned, which can take seconds, the
// device serves others; only closing it waits.
func TestRegisterBeside(t *testing.T) {
	d := open(t, devices(t)[0])
	m, done := registerSlowly(t, d)
	made := make(chan error, 1)
	go func() {
		_, err := d.NewQueue(8)
		made <- err
	}()
	select {
	case err := <-made:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("nobody gets a queue while memory is registered")
	}
	close(m.goOn)
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if n := d.Stats().LiveRegions; n != 1 {
		t.Errorf("%d regions live, want 1", n)
	}

	m, done = registerSlowly(t, d)
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, err := d.NewQueue(8)
		if errors.Is(err, rdma.ErrClosed) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the domain does not begin to close: %v", err)
		}
	}
	select {
	case err := <-closed:
		t.Errorf("closed under a registration: %v", err)
	default:
	}
	close(m.goOn)
	if r := <-done; !errors.Is(r.err, rdma.ErrClosed) || r.region != nil {
		t.Errorf("registered with a domain that closes: %v, %v", r.region, r.err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := d.Register(m.Memory, rdma.AccessAll, "late"); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("registered with a closed domain: %v", err)
	}
}
