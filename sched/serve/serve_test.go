package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

const sums = "tables:\n  - {name: sum, dim: 2, rule: sum}\n  - {name: last, dim: 2, rule: assign}\n"

// TestTrainersComeAndGo: as many as there are places, each with a number; a
// place that was left is taken again, and nothing that was pushed is lost.
func TestTrainersComeAndGo(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s := start(t, Config{Tables: tables(t, sums), Staleness: asp, Clients: 3})
			keys := []uint64{5, 1 << 60, 77}
			var all []*trainer
			for i := range 3 {
				tr, err := join(t, s.Addr(), transport)
				if err != nil {
					t.Fatal(err)
				}
				if tr.Worker() != i {
					t.Errorf("trainer %d has the number %d", i, tr.Worker())
				}
				tr.push("sum", false, keys, 1, 2, 3)
				all = append(all, tr)
			}
			_, err := join(t, s.Addr(), transport)
			says(t, err, "3 trainers are connected, the most")
			all[1].leave()
			again, err := join(t, s.Addr(), transport)
			if err != nil {
				t.Fatal(err)
			}
			if again.Worker() != 1 {
				t.Errorf("number %d, want the free 1", again.Worker())
			}
			again.push("sum", false, keys[:1], 10)
			if got := all[2].pull("sum", keys...); !slices.Equal(got, []float32{13, 6, 9}) {
				t.Errorf("the sums are %v", got)
			}
			all[0].push("last", false, keys, 7, 8, 9)
			again.push("last", false, keys[1:], 4, 5)
			if got := all[0].pull("last", keys...); !slices.Equal(got, []float32{7, 4, 5}) {
				t.Errorf("what was assigned last is %v", got)
			}
		})
	}
}

// A trainer that dies without a word gives its place up, in time.
func TestPlaceOfTheDead(t *testing.T) {
	s := start(t, Config{Tables: tables(t, sums), Staleness: asp, Clients: 1, ReconnectFor: time.Millisecond})
	s.join(t).Close()
	var last error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		tr, err := join(t, s.Addr(), "tcp")
		if last = err; err == nil {
			tr.leave()
			return
		}
	}
	t.Fatalf("nobody gets its place: %v", last)
}

// TestTables: a trainer's description is compared, made, or refused.
func TestTables(t *testing.T) {
	mine := &table.Spec{Dim: 4, Optimizer: table.Optimizer{Kind: table.AdaGrad, LR: 0.1}}
	closed := start(t, Config{Tables: tables(t, sums), Staleness: asp}).join(t)
	for _, c := range []struct {
		name string
		spec *table.Spec
		code psmsg.TableCode
		want string
	}{
		{"sum", nil, "", ""},
		{"sum", &table.Spec{Dim: 2, Optimizer: table.Optimizer{Kind: table.Sum}}, "", ""},
		{"sum", &table.Spec{Dim: 3, Optimizer: table.Optimizer{Kind: table.Sum}}, psmsg.TableMismatch, "is dim 2, optimizer sum, init zero at server 0; asked for is dim 3, optimizer sum"},
		{"sum", &table.Spec{Dim: 2, Optimizer: table.Optimizer{Kind: table.Adam}}, psmsg.TableMismatch, "asked for is dim 2, optimizer adam lr 0.001"},
		{"none", nil, psmsg.TableMissing, "it has sum, last"},
		{"none", mine, psmsg.TableInvalid, "describe it there"},
	} {
		rep := closed.table(c.name, c.spec)
		if rep.Code != c.code {
			t.Errorf("%s %+v: code %q, want %q", c.name, c.spec, rep.Code, c.code)
		}
		if c.want != "" {
			says(t, fmt.Errorf("%s", rep.Refused), c.want)
		}
	}
	open := start(t, Config{NewTables: true, Staleness: asp})
	a, b := open.join(t), open.join(t)
	if rep := a.table("mine", mine); rep.Refused != "" || rep.Spec.ID != psmsg.TableID("mine") {
		t.Fatalf("%+v", rep)
	}
	a.push("mine", false, []uint64{3}, 1)
	if w := b.pull("mine", 3); w[0] == 0 {
		t.Error("the other trainer sees no such row")
	}
	rep := a.table("evil", &table.Spec{Dim: 1, Optimizer: table.Optimizer{Kind: table.User, Library: "/x.so"}})
	says(t, fmt.Errorf("%s", rep.Refused), "the server's own tables file only")
}

func TestRefusals(t *testing.T) {
	s := start(t, Config{Tables: tables(t, sums), Staleness: asp})
	_, err := New(Config{Listen: s.Addr(), Token: testToken, Tables: tables(t, sums), Lanes: 1, Clients: 1, Node: -1})
	says(t, err, "the address is taken: another server listens there")
	h, err := dial.New(dial.Config{Token: []byte("another token than the server's")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = describe(t, h, s.Addr())
	says(t, err, "token")
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Lanes: 0, Clients: 1}, "0 lanes, want 1 to 64"},
		{Config{Lanes: 1, Clients: 2000}, "2000 clients, want 1 to 1024"},
		{Config{Lanes: 1, Clients: 1}, "trainers may make none"},
		{Config{Lanes: 1, Clients: 1, NewTables: true, SaveEvery: 1}, "say where"},
		{Config{Lanes: 1, Clients: 1, NewTables: true, Transport: "pigeon"}, "pigeon"},
	} {
		_, err := New(c.cfg)
		says(t, err, c.want)
	}
}

// TestSeveralServers: one process talks to two, which know nothing of each other.
func TestSeveralServers(t *testing.T) {
	var all [2]*trainer
	for i := range all {
		all[i] = start(t, Config{Tables: tables(t, sums), Staleness: asp}).join(t)
		all[i].push("sum", false, []uint64{1}, float32(1+i))
	}
	for i, tr := range all {
		if got := tr.pull("sum", 1); got[0] != float32(1+i) {
			t.Errorf("server %d has %v", i, got)
		}
	}
}
