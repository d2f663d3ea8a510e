package dial

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	here := facts{Boot: "b1", UID: 5, Namespaces: map[string]string{"mnt": "m", "net": "n", "pid": "p", "user": "u"}}
	change := func(f func(*facts)) facts {
		x := here
		x.Namespaces = maps.Clone(here.Namespaces)
		f(&x)
		return x
	}
	both := []offer{{Name: "shm"}, {Name: "tcp", CrossHost: true}}
	tcpOnly := both[1:]
	three := func(rail, lack string) []offer {
		v := offer{Name: "verbs", CrossHost: true, Lack: lack}
		if rail != "" {
			v.Rails = [][]byte{[]byte(rail)}
		}
		return append([]offer{v}, both...)
	}
	meet := func(a, b offer) bool { return string(a.Rails[0]) == string(b.Rails[0]) }
	for _, c := range []struct {
		name       string
		here, peer terms
		want       string // reasons joined by "|"
		err        string
	}{
		{"same host", terms{Auto, both, here}, terms{Auto, both, here},
			"shm: both processes run as uid 5 on the same host|tcp: the best that both sides offer", ""},
		{"other host", terms{Auto, both, here}, terms{Auto, both, change(func(f *facts) { f.Boot = "b2" })},
			"tcp: the peer is on another host (boot id differs)", ""},
		{"boot id unknown", terms{Auto, both, change(func(f *facts) { f.Boot = "" })}, terms{Auto, both, change(func(f *facts) { f.Boot = "" })},
			"tcp: the peer is on another host (boot id differs)", ""},
		{"other user", terms{Auto, both, here}, terms{Auto, both, change(func(f *facts) { f.UID = 6 })},
			"tcp: the peer runs as uid 6, this process as uid 5", ""},
		{"container", terms{Auto, both, here}, terms{Auto, both, change(func(f *facts) { f.Namespaces["pid"] = "q" })},
			"tcp: the peer is in another pid namespace (container)", ""},
		{"namespace unknown", terms{Auto, both, here}, terms{Auto, both, change(func(f *facts) { delete(f.Namespaces, "mnt") })},
			"tcp: the peer is in another mnt namespace (container)", ""},
		{"peer offers less", terms{Auto, both, here}, terms{Auto, tcpOnly, here}, "tcp: the peer does not offer it", ""},
		{"asked for here", terms{"tcp", both, here}, terms{Auto, both, here}, "tcp: asked for by --transport tcp", ""},
		{"asked for there", terms{Auto, both, here}, terms{"shm", both, here}, "shm: asked for by --transport shm", ""},
		{"asked for differently", terms{"tcp", both, here}, terms{"shm", both, here}, "", "use the same"},
		{"asked for in vain", terms{"shm", both, here}, terms{Auto, both, change(func(f *facts) { f.Boot = "b2" })}, "", "not possible: the peer is on another host"},
		{"nothing in common", terms{Auto, both[:1], here}, terms{Auto, tcpOnly, here}, "", "the peer offers tcp, this process shm"},
		{"RDMA on one host", terms{Auto, three("a", ""), here}, terms{Auto, three("a", ""), here},
			"verbs: an RDMA device reaches the peer|shm: both processes run as uid 5 on the same host|tcp: the best that both sides offer", ""},
		{"RDMA that does not meet", terms{Auto, three("a", ""), here}, terms{Auto, three("b", ""), change(func(f *facts) { f.Boot = "b2" })},
			"tcp: no device here reaches one of the peer's", ""},
		{"no RDMA here", terms{Auto, three("", "no card"), here}, terms{Auto, three("a", ""), here},
			"shm: both processes run as uid 5 on the same host (not verbs: no card)|tcp: the best that both sides offer (not verbs: no card)", ""},
		{"no RDMA there", terms{Auto, three("a", ""), here}, terms{Auto, three("", "no card"), here},
			"shm: the peer says: no card|tcp: the peer says: no card", ""},
		{"RDMA asked for in vain", terms{"verbs", three("", "no card"), here}, terms{Auto, three("a", ""), here}, "", "--transport verbs is not possible: no card"},
		{"peer offers nothing", terms{Auto, both, here}, terms{Auto, nil, here}, "", "the peer offers nothing"},
	} {
		list, err := choose(c.here, c.peer, meet)
		if c.err != "" {
			if !errors.Is(err, ErrNoTransport) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, %v, want an error with %q", c.name, list, err, c.err)
			}
			continue
		}
		var reasons []string
		for _, x := range list {
			reasons = append(reasons, x.reason)
		}
		if got := strings.Join(reasons, "|"); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestUnknownTransport(t *testing.T) {
	if _, err := New(Config{Token: testToken, Transport: "rdmq"}); err == nil || !strings.Contains(err.Error(), `"rdmq"`) || !strings.Contains(err.Error(), "tcp") {
		t.Errorf("got %v", err)
	}
}
