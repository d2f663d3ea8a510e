package serve

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/sched/clock"
	"psrt/sched/coord/local"
	"psrt/sched/kv"
	"psrt/sched/server"
)

// group starts n servers that meet; how changes the settings of each.
func group(t *testing.T, n int, how func(i int, c *Config)) (servers []*Server, end func() []error) {
	t.Helper()
	c := local.New()
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ends, ready := make([]chan error, n), make(chan int, n)
	for i := range n {
		cfg := Config{Listen: "127.0.0.1:0", Token: testToken, Node: -1, Lanes: 2, Clients: 8, Staleness: server.Async,
			Tables: tables(t, sums), Group: &Group{Coord: c, Servers: n, Index: i}}
		how(i, &cfg)
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		servers, ends[i] = append(servers, s), make(chan error, 1)
		go func() {
			ends[i] <- s.Run(ctx, func() { ready <- i })
			ready <- -1
		}()
	}
	for range n {
		<-ready
	}
	return servers, func() []error {
		cancel()
		errs := make([]error, n)
		for i := range ends {
			errs[i] = <-ends[i]
		}
		return errs
	}
}

// Several servers are one to a trainer that knows any of them; what they save
// together goes back into as many others.
func TestGroup(t *testing.T) {
	const keys = 5000
	dir := filepath.Join(t.TempDir(), "model")
	ids, ones, got := make([]uint64, keys), make([]float32, 2*keys), make([]float32, 2*keys)
	for i := range ids {
		ids[i] = uint64(i) * 0x9e3779b97f4a7c15
		ones[2*i], ones[2*i+1] = 1, float32(i)
	}
	want := float32(0)
	for _, n := range []int{3, 2} {
		load := ""
		if want > 0 {
			load = dir
		}
		servers, end := group(t, n, func(i int, c *Config) {
			if c.Load = load; i == 0 {
				c.Save, c.SaveEvery = dir, 20*time.Millisecond
			}
		})
		c, err := kv.Open(t.Context(), kv.Config{Servers: []string{servers[n-1].Addr()}, Token: testToken})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := c.Table("sum")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := sum.Push(ids, ones, kv.Options{}); err != nil {
				t.Fatal(err)
			}
			want++
		}
		if err := sum.Pull(ids, got, kv.Options{}); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			if got[2*i] != want || got[2*i+1] != want*float32(i) {
				t.Fatalf("%d servers: key %d has %v, want %v and %v", n, i, got[2*i:2*i+2], want, want*float32(i))
			}
		}
		for i, s := range servers {
			st, err := s.Server().Stats()
			if err != nil || st.Pushes == 0 {
				t.Errorf("server %d of %d has no part in it: %v", i, n, err)
			}
		}
		c.Close()
		for i, err := range end() {
			if err != nil {
				t.Errorf("server %d of %d ended with %v", i, n, err)
			}
		}
	}
}

func TestGroupMustAgree(t *testing.T) {
	for want, differ := range map[string]func(i int, c *Config){
		"--threads: 3 here, 2 at server 0": func(i int, c *Config) { c.Lanes += i },
		"--table-sync: sum=ssp:1 here, sum=ssp:0-4 at server 0": func(i int, c *Config) {
			c.TableSync = clock.ByTable{"sum": []clock.Mode{{Least: 0, Most: 4}, clock.Fixed(1)}[i]}
		},
	} {
		_, end := group(t, 2, differ)
		if err := end()[1]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("server 1 ended with %v, want %q", err, want)
		}
	}
}
