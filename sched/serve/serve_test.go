package serve

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

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

// TestUsersRule runs the worked example of docs/extending.md behind a server
// beside its formula: 0.5 v + g, w - 0.25 v.
func TestUsersRule(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command("cc", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I../../csrc/rule", "-o", filepath.Join(dir, "momentum.so"), "../../csrc/examples/momentum.c")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, b)
	}
	text := "tables:\n  - {name: w, dim: 3, rule: momentum.so, params: {rate: 0.25, momentum: %v}, init: zero}\n"
	_, err := ParseTables(filepath.Join(dir, "tables.yaml"), fmt.Appendf(nil, text, 1.5))
	says(t, err, "tables.yaml:2: table \"w\": rule: library")
	says(t, err, "want rate above 0, momentum from 0 to below 1")
	specs, err := ParseTables(filepath.Join(dir, "tables.yaml"), fmt.Appendf(nil, text, 0.5))
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "model")
	s := start(t, Config{Tables: specs, Staleness: asp, Save: model})
	a, b := s.join(t), s.join(t)
	keys := []uint64{1, 2}
	a.push("w", false, keys, 1, 2)
	b.push("w", false, keys, 1, 2)
	if got := a.pull("w", keys...); !slices.Equal(got, []float32{-0.25 - 0.375, -0.5 - 0.75}) {
		t.Errorf("weights %v", got)
	}
	if rep := a.table("w", nil); rep.Spec.Optimizer.Rule != "momentum" || rep.RowBytes != 24 {
		t.Errorf("the table is %+v", rep)
	}
	before := s.digest(t)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Tables: specs, Staleness: asp, Load: model})
	if after := s.digest(t); after != before {
		t.Errorf("digest %s after loading, was %s", after, before)
	}
	_, err = New(Config{Listen: "127.0.0.1:0", Token: testToken, Lanes: 1, Clients: 1, Node: -1,
		Tables: &Tables{Specs: []table.Spec{{Name: "w", Dim: 3, Optimizer: table.Optimizer{Kind: table.User, Library: filepath.Join(dir, "momentum.so"), Params: "momentum=0.5", Rule: "other", State: 3}}}}})
	says(t, err, "has become another rule")
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
