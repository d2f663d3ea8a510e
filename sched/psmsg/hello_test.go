package psmsg

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// hello4 and welcome4 are what version 4 knew, and how it decided.
type hello4 struct {
	Protocol int    `json:"protocol"`
	Worker   int    `json:"worker"`
	Client   uint64 `json:"client"`
	Any      bool   `json:"any,omitempty"`
}

type welcome4 struct {
	Server int `json:"server"`
	Lanes  int `json:"lanes"`
	Worker int `json:"worker"`
}

func through[T any](t *testing.T, v any) (out T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A client of the release before at a server of this one, and the other way round.
func TestTwoVersions(t *testing.T) {
	old := through[Hello](t, hello4{Protocol: 4, Worker: 3, Client: 9, Any: true})
	if v, err := old.Spoken(); err != nil || v != 4 || old.Worker != 3 || old.Client != 9 || !old.Any {
		t.Errorf("a client of version 4 says %+v: %d, %v", old, v, err)
	}
	b, err := json.Marshal(Hello{Worker: 3, Client: 9}.Says())
	if err != nil {
		t.Fatal(err)
	}
	var seen hello4
	if err := json.Unmarshal(b, &seen); err != nil || seen.Protocol != 4 || seen.Worker != 3 || seen.Client != 9 {
		t.Errorf("a server of version 4 reads %s as %+v, %v", b, seen, err)
	}
	answer := through[Welcome](t, welcome4{Server: 1, Lanes: 2, Worker: 3})
	if v, err := answer.Spoken(Hello{}.Says()); err != nil || v != 4 {
		t.Errorf("its answer: %d, %v", v, err)
	}
	if _, err := answer.Spoken(Hello{Chained: true}.Says()); err == nil {
		t.Error("it was asked for a group, which it does not know, and let the client in")
	}
}

func TestSpoken(t *testing.T) {
	for _, c := range []struct {
		hello  Hello
		newest int
		want   int // 0: refused
	}{
		{Hello{Protocol: 4, Newest: 5}, 5, 5},
		{Hello{Protocol: 5}, 5, 5},
		{Hello{Protocol: 4}, 5, 4},
		{Hello{Protocol: 5, Newest: 6}, 5, 5}, // the next release's client
		{Hello{Protocol: 6, Newest: 7}, 5, 0}, // the one after
		{Hello{Protocol: 3}, 5, 0},
		{Hello{Protocol: 4, Newest: 5}, 4, 4},
		{Hello{Protocol: 5, Newest: 5}, 4, 0},
		{Hello{Protocol: 5, Newest: 5, Chained: true}, 5, 5},
		{Hello{Protocol: 4, Chained: true}, 5, 0},
		{Hello{Protocol: 6, Newest: 6, Chained: true, Reads: true}, 6, 6},
		{Hello{Reads: true, Chained: true}.Says(), 5, 0}, // it would take it for the worker
		{Hello{}, 5, 0},
	} {
		v, err := c.hello.SpokenUpTo(c.newest)
		if v != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v at %d: %d, %v", c.hello, c.newest, v, err)
		}
	}
	for _, c := range []struct {
		says int
		want int
	}{{0, 4}, {4, 4}, {5, 5}, {Version, Version}, {Version + 1, 0}, {3, 0}} {
		if v, err := (Welcome{Protocol: c.says}).Spoken(Hello{}.Says()); v != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("an answer in %d: %d, %v", c.says, v, err)
		}
	}
}

func TestMoved(t *testing.T) {
	m := Moved{Group: 17, Epoch: 1<<63 + 5, Server: 3}
	for _, err := range []error{&m, fmt.Errorf("opening: %w", &m), errors.New("dial: 127.0.0.1:1: refused by the peer: server 3: " + m.Error())} {
		if got, ok := MovedIn(err); !ok || got != m {
			t.Errorf("%v: %+v, %v", err, got, ok)
		}
	}
	for _, text := range []string{"", "moved", "moved [group 1", "moved [group 1 epoch x server 1]", "moved [group -1 epoch 1 server 1]", "moved [group 5000 epoch 1 server 1]", "moved [group 1 epoch 1 server 1 ]"} {
		if got, ok := MovedIn(errors.New(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, ok := MovedIn(nil); ok {
		t.Error("nothing has moved")
	}
}

func FuzzMoved(f *testing.F) {
	f.Add((&Moved{1, 2, 3}).Error())
	f.Add(movedMark + "999999999999999999999 epoch 1 server 1]")
	f.Add(strings.Repeat(movedMark, 3))
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := parseMoved(text); ok {
			if again, ok := parseMoved(m.Error()); !ok || again != m {
				t.Fatalf("%q is %+v, which is %+v", text, m, again)
			}
		}
	})
}
