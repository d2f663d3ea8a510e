package kv

import (
	"context"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A server dies during calls: errors in time, and the client goes on when it is
// back. Without rows, and with the steps of before: it is a new process.
func TestServerLostAndBack(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 2, lanes: 1, workers: 1, staleness: server.Async})
		c := w.open(0, counting("t", 1))
		tab := w.table(c, "t")
		keys, ones := []uint64{1, 2, 3, 4, 5, 6, 7, 8}, []float32{1, 1, 1, 1, 1, 1, 1, 1}
		values := make([]float32, 8)
		for range 3 {
			must(t, tab.Push(keys, ones, Options{}))
			must(t, c.Tick(0))
		}
		w.Kill(1)
		// Until the client has seen it, a call in time says only that it was too late.
		for end := time.Now().Add(2 * time.Minute); CodeOf(tab.Pull(keys, values, Options{Timeout: 50 * time.Millisecond})) != Connect; {
			if time.Now().After(end) {
				t.Fatal("a client does not see in two minutes that a server is gone")
			}
		}
		start := time.Now()
		var all sync.WaitGroup
		for range 4 { // more than one waits, and not for the others' time
			all.Go(func() {
				err := tab.Pull(keys, make([]float32, 8), Options{Timeout: 300 * time.Millisecond})
				if CodeOf(err) != Connect || !contains(err.Error(), "server 1 is lost") {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		r, err := tab.PushAsync(keys, ones, Options{Timeout: 200 * time.Millisecond}, nil)
		must(t, err)
		<-r.Done()
		wantCode(t, r.Err(), Connect)
		_, err = c.StatsJSON(time.Second)
		wantCode(t, err, Connect)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("the calls took %v", took)
		}
		w.Start(1)
		must(t, tab.Pull(keys, values, Options{}))
		lost := 0
		for i, v := range values {
			switch v {
			case 0:
				lost++
			case -3:
			default:
				t.Errorf("key %d is %v", keys[i], v)
			}
		}
		if lost == 0 || lost == len(keys) {
			t.Errorf("%d of %d keys were on the server that was lost", lost, len(keys))
		}
		must(t, tab.Push(keys, ones, Options{}))
		must(t, c.Tick(0))
		must(t, tab.Push(keys, ones, Options{}))
		if c.Step() != 4 {
			t.Errorf("step %d, want 4", c.Step())
		}
	})
}

// Pulls into lent memory that are given up are taken back.
func TestGivenUpOnLentMemory(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 2, staleness: 0})
	a, b := w.open(0, counting("t", 1)), w.open(1)
	tab := w.table(a, "t")
	w.table(b, "t")
	must(t, a.Barrier2())
	m, err := a.Alloc(4096)
	must(t, err)
	// Worker 1 does not end its step, so this pull of the next one waits.
	wantCode(t, a.Tick(2*time.Second), Timeout, "waiting for lane 0 of server 0")
	wantCode(t, tab.Pull([]uint64{1}, floats(m)[:1], Options{Timeout: 100 * time.Millisecond}), Timeout)
	must(t, a.Unregister(m))
	must(t, b.Tick(0))
	one := make([]float32, 1)
	must(t, tab.Pull([]uint64{1}, one, Options{}))
}

// Barrier2 makes sure that the connection is open on both sides.
func (c *Client) Barrier2() error { _, err := c.StatsJSON(0); return err }

// A push that a server refuses does not hold up those behind it.
func TestRefusedPush(t *testing.T) {
	each2(t, func(t *testing.T, tr string) {
		w := newWorld(t, shape{transport: tr, servers: 1, lanes: 1, workers: 1, staleness: server.Async, maxBytes: 8 << 20})
		c := w.open(0, counting("t", 16))
		tab := w.table(c, "t")
		const n = 300_000
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i)
		}
		err := tab.Push(keys, make([]float32, n*16), Options{})
		states := make([]PushState, 1)
		must(t, tab.PushStates(PushOf(err), keys[:1], states, 0))
		if states[0] != PushMissing {
			t.Errorf("of a push that was refused the state is %d", states[0])
		}
		wantCode(t, err, NoMemory, "out of memory", "bytes more are needed, all tables have", "budget of 8388608 bytes", "--mem-budget")
		for range 3 {
			must(t, tab.Push([]uint64{1}, make([]float32, 16), Options{Timeout: time.Minute}))
			must(t, c.Tick(time.Minute))
		}
	})
}

// The servers' budget is for all tables together: one that is made later gets what
// is left, which here is nothing.
func TestBudgetOfLaterTables(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 2, workers: 1, staleness: server.Async, maxBytes: 16 << 20})
	c := w.open(0, counting("first", 16), counting("later", 16))
	keys := make([]uint64, 200_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	values := make([]float32, len(keys)*16)
	wantCode(t, w.table(c, "first").Pull(keys, values, Options{}), NoMemory, "16777216")
	r, err := w.table(c, "later").PullAsync(keys[:100], values[:1600], nil, Options{}, nil)
	must(t, err)
	<-r.Done()
	wantCode(t, r.Err(), NoMemory, `"later"`, "all tables have 8388608 of 8388608", "2 lanes", "16777216", "--mem-budget")
	must(t, w.table(c, "first").Pull(keys[:100], values[:1600], Options{}))
}

func TestCloseEndsCalls(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 1, lanes: 1, workers: 2, staleness: 0})
	a, b := w.open(0, counting("t", 1)), w.open(1)
	tab := w.table(a, "t")
	w.table(b, "t")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := a.Barrier(0); CodeOf(err) != Closed {
				t.Errorf("barrier: %v", err)
			}
		})
		all.Go(func() {
			if err := a.Tick(0); CodeOf(err) != Closed {
				t.Errorf("tick: %v", err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	r, err := tab.PullAsync([]uint64{1}, make([]float32, 1), nil, Options{}, nil)
	must(t, err)
	a.Close()
	all.Wait()
	<-r.Done()
	wantCode(t, r.Err(), Closed)
	wantCode(t, tab.Pull(nil, nil, Options{}), Closed)
}

func TestOpenRefusals(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	for name, tc := range map[string]struct {
		edit  func(*Config)
		code  Code
		words string
	}{
		"another token":  {func(c *Config) { c.Token = []byte("not the token of this job") }, Token, "token"},
		"nobody there":   {func(c *Config) { c.Servers, c.ConnectTimeout = []string{"127.0.0.1:1"}, Duration(400*time.Millisecond) }, Connect, "is psrt serve running at 127.0.0.1:1"},
		"worker 1 of 1":  {func(c *Config) { c.Worker = 1 }, BadConfig, "workers 0 to 0"},
		"three workers":  {func(c *Config) { c.Workers = 3 }, BadConfig, "workers is 3 here"},
		"no servers":     {func(c *Config) { c.Servers = nil }, BadConfig, "servers: [HOST:PORT]"},
		"no token file":  {func(c *Config) { c.Token, c.TokenFile = nil, "/nowhere/token" }, BadConfig, "/nowhere/token"},
		"no transport":   {func(c *Config) { c.Transport = "pigeon" }, BadConfig, "pigeon"},
		"many requests":  {func(c *Config) { c.Requests = 5000 }, BadConfig, "1 to 1024"},
		"another's kind": {func(c *Config) { c.Transport = "shm" }, Refused, "transport"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := w.config(0)
			cfg.ConnectTimeout = Duration(time.Minute)
			tc.edit(&cfg)
			c, err := Open(context.Background(), cfg)
			if err == nil {
				c.Close()
			}
			wantCode(t, err, tc.code, tc.words)
		})
	}
	w.open(0)
	cfg := w.config(0)
	_, err := Open(context.Background(), cfg)
	wantCode(t, err, Refused, "another process is connected as worker 0")
}

// What ranks are told of the network counts for servers that are not of their job, too.
func TestReach(t *testing.T) {
	d := dial.Devices{Devices: []string{"mlx5_0"}}
	d.Config.Port, d.Config.GIDIndex, d.Config.PinGID, d.Config.TrafficClass = 2, 3, true, 104
	c := Config{Servers: []string{"a:1"}}
	c.Reach("verbs", d, dial.CoverNone)
	if c.Transport != "verbs" || len(c.Device) != 1 || c.Device[0] != "mlx5_0" || c.Port != 2 || c.GIDIndex == nil || *c.GIDIndex != 3 || !c.Plaintext {
		t.Errorf("%+v", c)
	}
	if got := c.devices(); !reflect.DeepEqual(got, d) {
		t.Errorf("%+v, want %+v", got, d)
	}
	c.Reach("auto", dial.Devices{}, dial.CoverFar)
	if c.Transport != "auto" || len(c.Device) != 0 || c.Port != 0 || c.GIDIndex != nil || c.Plaintext {
		t.Errorf("%+v", c)
	}
}

func TestParseConfig(t *testing.T) {
	good := "servers: [h:1]\ntoken_file: x\ntimeout: 250ms\ntables:\n- {name: u, dim: 4, optimizer: {kind: ftrl, l1: 1}}\n"
	c, err := ParseConfig([]byte(good))
	if err != nil || time.Duration(c.Timeout) != 250*time.Millisecond || c.Tables[0].Optimizer.Kind != table.FTRL {
		t.Fatalf("%+v, %v", c, err)
	}
	for text, words := range map[string]string{
		good + "surprise: 1\n":                 "surprise",
		good + "time_out: 3s\n":                `did you mean "timeout"?`,
		good + "worker: two\n":                 `there is "two" where a whole number should be`,
		good + "- {name: v, dims: 4}\n":        `line 6 of the configuration: key "dims" is unknown, did you mean "dim"?`,
		good + "worker: -1\n":                  "worker -1",
		"servers: [h:1\n":                      "the configuration: not YAML: line",
		good + "connect_timeout: soon\n":       "no duration",
		good + "- {name: u, dim: 4}\n":         "described twice",
		good + "- {name: v, dim: 0}\n":         "dim 0",
		"servers: [a:1]\ncoordinator: b:1\n":   "both servers and coordinator",
		string(make([]byte, maxConfigBytes+1)): "at most",
	} {
		_, err := ParseConfig([]byte(text))
		wantCode(t, err, BadConfig, words)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("servers: [h:1]\ntoken_file: x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig(b)
		if err == nil && (c.Requests < 1 || c.Timeout <= 0) {
			t.Fatalf("accepted %+v", c)
		}
		if err != nil && CodeOf(err) != BadConfig {
			t.Fatal(err)
		}
	})
}

func TestSaveAndLoad(t *testing.T) {
	w := newWorld(t, shape{transport: "shm", servers: 2, lanes: 2, workers: 1, staleness: server.Async, dense: 40})
	c := w.open(0, counting("a", 2), counting("b", 1))
	a, b := w.table(c, "a"), w.table(c, "b")
	dir := t.TempDir()
	keys := []uint64{1, 2, 3, 4, 5}
	must(t, a.Push(keys, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Options{}))
	must(t, b.Push(keys, []float32{1, 2, 3, 4, 5}, Options{}))
	must(t, c.Save(dir, SaveOptions{}))
	must(t, a.Push(keys, make([]float32, 10), Options{}))
	must(t, b.Push(keys, []float32{9, 9, 9, 9, 9}, Options{}))
	must(t, c.Load(dir, SaveOptions{}))
	v := make([]float32, 5)
	must(t, b.Pull(keys, v, Options{}))
	if v[0] != -1 || v[4] != -5 {
		t.Errorf("after load: %v", v)
	}
	wantCode(t, c.Load(t.TempDir(), SaveOptions{}), IO, "no model there")
	wantCode(t, c.Save("", SaveOptions{}), Invalid)
	t.Chdir(t.TempDir())
	for _, name := range []string{"s3://bucket/model?endpoint=http://127.0.0.1:9", "hdfs://node/model", "gs://bucket/m", "file:///tmp/m"} {
		wantCode(t, c.Save(name, SaveOptions{}), Invalid, "a path of this machine is needed here")
		wantCode(t, c.Load(name, SaveOptions{}), Invalid, "a path of this machine is needed here")
		_, err := ParseConfig([]byte("servers: [127.0.0.1:1]\ntoken_file: t\naudit: " + name))
		wantCode(t, err, BadConfig, "audit: "+name)
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
	must(t, os.WriteFile("EXPORT.json", nil, 0o600))
	wantCode(t, c.Save(".", SaveOptions{}), Invalid, "holds an export")
	if os.Getuid() == 0 {
		wantCode(t, c.Save("/proc/nowhere", SaveOptions{}), IO)
	}
	if _, err := c.Table("a"); err != nil {
		t.Error(err)
	}
}
