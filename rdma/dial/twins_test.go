package dial

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/secure"
	"psrt/rdma/wire"
)

// TestTwins: there are twins where the dialer offers them and the listener wants them on
// the transport that is used in the end; each on its endpoint's domain, and carrying data.
func TestTwins(t *testing.T) {
	const count = 3
	for _, c := range []struct {
		name           string
		offers, wanted bool
		broken         bool // the first transport
		rails          bool
	}{
		{"offered and wanted", true, true, false, false},
		{"not wanted", true, false, false, false},
		{"not offered", false, true, false, false},
		{"neither", false, false, false, false},
		{"over the second transport", true, true, true, false},
		{"on rails", true, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sides := [2][]Transport{{far()}, {far()}}
			for i := range sides {
				switch {
				case c.broken:
					sides[i] = []Transport{near(openLame), far()}
				case c.rails:
					_, rails := planks(t)
					sides[i] = []Transport{rails}
				}
			}
			server := newHost(t, Config{StepTimeout: 20 * time.Second, Transports: sides[0]})
			client := newHost(t, Config{StepTimeout: 20 * time.Second, Transports: sides[1]})
			l := listen(t, server, "127.0.0.1:0")
			cl, sl := newLane(t), newLane(t)
			var there *Conn
			failed := make(chan error, 1)
			ctx := within(t, time.Minute)
			go func() {
				in, err := l.Accept(ctx)
				if err == nil {
					if in.Twins != c.offers || in.Count != count {
						t.Errorf("%d endpoints, twins %v", in.Count, in.Twins)
					}
					in.WantTwins(func(rdma.Domain) bool { return c.wanted })
					there, err = in.Finish(sl.accept, nil)
				}
				failed <- err
			}()
			dials := client.Dial
			if c.offers {
				dials = client.DialTwins
			}
			here, _, err := dials(ctx, l.Addr(), nil, count, cl.attach)
			if err := errors.Join(err, <-failed); err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.offers && c.wanted {
				want = count
			}
			for side, conn := range []*Conn{here, there} {
				if len(conn.Endpoints) != count || len(conn.Domains) != count || len(conn.Twins) != want {
					t.Errorf("side %d has %d endpoints and %d twins, want %d and %d", side, len(conn.Endpoints), len(conn.Twins), count, want)
				}
			}
			exchange(t, joined{client: here, server: there}, cl, sl)
			if want == 0 {
				if here.Twin(0) != nil {
					t.Error("a twin that is not there")
				}
				return
			}
			exchange(t, joined{client: &Conn{Endpoints: here.Twins}, server: &Conn{Endpoints: there.Twins}}, cl, sl)
			_ = here.Close()
			for i := range count { // with the connection its twins end, too
				if _, err := here.Twin(i).Post([]rdma.WR{{Op: rdma.OpWriteImm}}); !errors.Is(err, rdma.ErrClosed) {
					t.Errorf("twin %d after Close: %v", i, err)
				}
			}
			if c.rails {
				pairs := map[rdma.Domain]int{}
				for _, d := range there.Domains {
					pairs[d]++
				}
				if len(pairs) != 2 {
					t.Errorf("endpoints are on %d rails, there are 2", len(pairs))
				}
			}
		})
	}
}

// TestTwinsUnasked: a listener that names twins to who offered none is not followed.
func TestTwinsUnasked(t *testing.T) {
	l, err := secure.Listen("tcp", "127.0.0.1:0", testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	deadline := time.Now().Add(time.Minute)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = readMsg(c, deadline, map[uint8]any{kindHello: &helloMsg{}})
		_ = sendMsg(c, kindTry, tryMsg{Transport: "far", Addresses: make([][]byte, 2), Twins: true}, deadline)
	}()
	_, _, err = newHost(t, Config{Transports: []Transport{far()}}).Dial(within(t, time.Minute), l.Addr().String(), nil, 1, newLane(t).attach)
	if !errors.Is(err, wire.ErrFrame) {
		t.Errorf("got %v", err)
	}
}
