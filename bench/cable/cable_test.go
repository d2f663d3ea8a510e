package cable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/rdma/feature"
)

const (
	hostAddress = "10.77.3.2"
	hostGateway = "10.77.3.1"
)

// The test binary is another part of a run when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_CABLE") != "" {
		if err := Serve(map[string]Part{Server: sink, Switch: switches}, os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type said struct {
	Err    string
	Stream string
	Rate   float64
}

// sink receives streams at the end of a cable.
func sink(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var word struct{}
	if err := from.Decode(&word); err != nil { // the cable is there
		return err
	}
	if err := End(ctx, hostAddress, hostGateway); err != nil {
		return to.Encode(said{Err: err.Error()})
	}
	l, err := net.Listen("tcp", hostAddress+":0")
	if err != nil {
		return to.Encode(said{Err: err.Error()})
	}
	defer l.Close()
	go ServeStreams(l)
	if err := to.Encode(said{Stream: l.Addr().String()}); err != nil {
		return err
	}
	return from.Decode(&word)
}

// switches lays a cable to a process of its own, and measures it.
func switches(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var part child.Command
	if err := from.Decode(&part); err != nil {
		return err
	}
	rate, err := func() (float64, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		host, err := Start(ctx, part, Server, Inside(Veth))
		if err != nil {
			return 0, err
		}
		defer host.Close(cancel)
		if err := errors.Join(Forward(), Lay(ctx, "port", hostGateway, host.PID()), Rate(ctx, "port", 80e6, 128<<10)); err != nil {
			return 0, err
		}
		var s said
		if err := errors.Join(host.Tell(struct{}{}), host.Hear(&s)); err != nil {
			return 0, err
		}
		if s.Err != "" {
			return 0, errors.New(s.Err)
		}
		// So long that what piles up while the receiver has no core, at its begin or end, is little of it.
		return Stream(s.Stream, 3*time.Second)
	}()
	s := said{Rate: rate}
	if err != nil {
		s.Err = err.Error()
	}
	return to.Encode(s)
}

// A link carries what its rate allows, and no more.
func TestLink(t *testing.T) {
	if err := Tools(Veth); err != nil {
		feature.SkipUnless(t, errors.Join(err, feature.ErrNotSupported))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	part := child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_CABLE=1"}}
	st, err := Start(ctx, part, Switch, Namespaces(Veth))
	if errors.Is(Privilege(err), ErrNoLink) {
		feature.SkipUnless(t, errors.Join(err, feature.ErrNotSupported))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(cancel)
	var s said
	if err := errors.Join(st.Tell(part), st.Hear(&s)); err != nil {
		t.Fatal(err)
	}
	if s.Err != "" || !(s.Rate > 0) || s.Rate > 11e6 {
		t.Errorf("a link of 10 MB/s carries %g: %s", s.Rate, s.Err)
	}
}

func TestSaysWhatIsMissing(t *testing.T) {
	if err := Privilege(&os.PathError{Op: "fork", Err: syscall.EPERM}); !errors.Is(err, ErrNoLink) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Error(err)
	}
	if err := Privilege(syscall.ENOENT); errors.Is(err, ErrNoLink) {
		t.Error(err)
	}
	if Namespaces(None) != 0 || Inside(None) != 0 || Tools(None) != nil {
		t.Error("loopback takes namespaces, or tools")
	}
	t.Setenv("PATH", t.TempDir())
	if err := Tools(Veth); !errors.Is(err, ErrNoLink) {
		t.Error(err)
	}
	if err := Serve(nil, "nobody", &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Error(err)
	}
}
