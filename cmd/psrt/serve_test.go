package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/kv"
)

const serveTables = "tables:\n  - {name: sum, dim: 2, rule: sum}\n"

// served is a psrt serve that is ready.
type served struct {
	cmd    *exec.Cmd
	ready  readiness
	stderr *strings.Builder
	ended  chan error
}

// serveProcess starts psrt serve and waits for its readiness line.
func serveProcess(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &served{cmd: command(ctx, append([]string{"serve"}, args...)...), stderr: &strings.Builder{}, ended: make(chan error, 1)}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	go func() { s.ended <- s.cmd.Wait() }()
	if err != nil || json.Unmarshal(line, &s.ready) != nil || s.ready.Event != "ready" {
		t.Fatalf("no readiness line but %q (%v): %v, %s", line, err, <-s.ended, s.stderr)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	return s
}

// end sends a signal and says how long the process then took, and its exit code.
func (s *served) end(sig syscall.Signal) (time.Duration, int) {
	begin := time.Now()
	s.cmd.Process.Signal(sig)
	<-s.ended
	return time.Since(begin), s.cmd.ProcessState.ExitCode()
}

func connect(t *testing.T, cfg kv.Config) *kv.Client {
	t.Helper()
	c, err := kv.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func openTable(t *testing.T, c *kv.Client, name string) *kv.Table {
	t.Helper()
	table, err := c.Table(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func scrape(t *testing.T, addr string) string {
	t.Helper()
	c := http.Client{Timeout: 2 * time.Minute}
	res, err := c.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func pullSum(t *testing.T, table *kv.Table) float32 {
	t.Helper()
	values := make([]float32, 2)
	if err := table.Pull([]uint64{7}, values, kv.Options{}); err != nil {
		t.Fatal(err)
	}
	return values[0]
}

// TestServe: a server from its first line to its end, with a second one beside it,
// which may neither take its address nor is known to its clients.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	tables, token := write(t, dir, "tables.yaml", serveTables), filepath.Join(dir, "token")
	readyFile, model := filepath.Join(dir, "ready"), filepath.Join(dir, "model")
	args := []string{"--tables", tables, "--token-file", token, "--threads", "2", "--load", model, "--save", model}
	s := serveProcess(t, append(args, "--listen", "127.0.0.1:0", "--ready-file", readyFile, "--metrics", "127.0.0.1:0")...)
	if st, err := os.Stat(token); err != nil || st.Mode().Perm() != 0o600 || st.Size() < 64 {
		t.Errorf("the token that was made: %v, %v", st, err)
	}
	var again readiness
	if b, err := os.ReadFile(readyFile); err != nil || json.Unmarshal(b, &again) != nil || again.Address != s.ready.Address {
		t.Errorf("the ready file has %+v (%v), the line %+v", again, err, s.ready)
	}
	if s.ready.PID != s.cmd.Process.Pid || !slices.Equal(s.ready.Tables, []string{"sum"}) || s.ready.Threads != 2 {
		t.Errorf("ready: %+v", s.ready)
	}
	if o := psrt(t, append(args, "--listen", s.ready.Address)...); o.code != 2 {
		t.Errorf("psrt without serve: exit %d", o.code)
	}
	if o := psrt(t, append([]string{"serve", "--listen", s.ready.Address}, args...)...); o.code != 2 || !strings.Contains(o.stderr, "the address is taken") || o.stdout != "" {
		t.Errorf("a second server on the address: exit %d, %s", o.code, o.stderr)
	}
	other := serveProcess(t, "--tables", tables, "--token-file", token, "--listen", "unix:"+filepath.Join(dir, "socket"))

	sums := map[*served]float32{s: 1, other: 10}
	for server, v := range sums {
		table := openTable(t, connect(t, kv.Config{Servers: []string{server.ready.Address}, TokenFile: token}), "sum")
		for range 2 {
			if err := table.Push([]uint64{7}, []float32{v, v}, kv.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := pullSum(t, table); got != 2*v {
			t.Errorf("the sum is %v, want %v", got, 2*v)
		}
	}
	if got := scrape(t, s.ready.Metrics); !strings.Contains(got, `psrt_server_rows{rank="server 0",table="sum"} 1`) {
		t.Errorf("the metrics have no line of the table's rows:\n%s", got)
	}
	res, err := http.Get("http://" + s.ready.Metrics + "/readyz")
	must(t, err)
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("it has said that it is ready, and answers %s", res.Status)
	}
	_, err = kv.Open(context.Background(), kv.Config{Servers: []string{s.ready.Address}, Token: []byte("not the token of this server")})
	var coded *kv.Error
	if !errors.As(err, &coded) || coded.Code != kv.Token {
		t.Errorf("another token gives %v", err)
	}
	// Clients are still connected.
	for server, sig := range map[*served]syscall.Signal{s: syscall.SIGTERM, other: syscall.SIGINT} {
		if took, code := server.end(sig); code != 0 || took > limit {
			t.Errorf("%v: exit %d after %v: %s", sig, code, took, server.stderr)
		}
	}
	for _, left := range []string{readyFile, filepath.Join(dir, "socket")} {
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind (%v)", left, err)
		}
	}
	if !strings.Contains(s.stderr.String(), "saved "+model) {
		t.Errorf("nothing was saved: %s", s.stderr)
	}
	s = serveProcess(t, append(args, "--listen", "127.0.0.1:0")...)
	if got := pullSum(t, openTable(t, connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: token}), "sum")); got != 2 || s.ready.Loaded != model {
		t.Errorf("after loading the sum is %v; %+v", got, s.ready)
	}
}

// TestServeKilled: a call in which the server is killed ends within its own
// timeout, and the client is as good as new when the server is back.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--tables", write(t, dir, "tables.yaml", serveTables), "--token-file", write(t, dir, "token", strings.Repeat("secret", 8)), "--listen"}
	s := serveProcess(t, append(args, "127.0.0.1:0")...)
	addr := s.ready.Address
	const timeout = 2 * time.Second
	c := connect(t, kv.Config{Servers: []string{addr}, TokenFile: args[3], Timeout: kv.Duration(timeout)})
	table := openTable(t, c, "sum")

	// Pushes of one after the other, until one fails.
	failed := make(chan time.Duration)
	go func() {
		for {
			begin := time.Now()
			if err := table.Push([]uint64{7}, []float32{1, 1}, kv.Options{}); err != nil {
				failed <- time.Since(begin)
				return
			}
		}
	}()
	time.Sleep(100 * time.Millisecond)
	s.end(syscall.SIGKILL)
	if took := <-failed; took > 10*timeout {
		t.Errorf("the push failed after %v, its timeout is %v", took, timeout)
	}
	if err := table.Pull([]uint64{7}, make([]float32, 2), kv.Options{}); err == nil {
		t.Error("a pull succeeds without a server")
	}

	s = serveProcess(t, append(args, addr)...)
	deadline := time.Now().Add(time.Minute)
	for {
		err := table.Push([]uint64{8}, []float32{5, 5}, kv.Options{})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server is back for a minute: %v", err)
		}
	}
	values := make([]float32, 2)
	if err := table.Pull([]uint64{8}, values, kv.Options{}); err != nil || values[0] < 5 {
		t.Errorf("the row is %v, %v", values, err)
	}
	if took, code := s.end(syscall.SIGTERM); code != 0 || took > limit {
		t.Errorf("SIGTERM: exit %d after %v: %s", code, took, s.stderr)
	}
}

// TestServeAfterKill: the socket file of a server that was killed is in nobody's
// way, that of one that lives is.
func TestServeAfterKill(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--tables", write(t, dir, "tables.yaml", serveTables), "--token-file", filepath.Join(dir, "token"), "--listen", "unix:" + filepath.Join(dir, "socket")}
	serveProcess(t, args...).end(syscall.SIGKILL)
	s := serveProcess(t, args...)
	if o := psrt(t, append([]string{"serve"}, args...)...); o.code != 2 || !strings.Contains(o.stderr, "the address is taken") {
		t.Errorf("a second server on the socket: exit %d, %s", o.code, o.stderr)
	}
	connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: args[3]})
	file := write(t, dir, "file", "precious")
	args[5] = "unix:" + file
	if o := psrt(t, append([]string{"serve"}, args...)...); o.code == 0 {
		t.Error("a server listens where a file is")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file has %q (%v)", b, err)
	}
}

// TestServeStopsUnderLoad: a server that is told to end while it works on a
// trainer's memory lets go of the work first, not of the memory.
func TestServeStopsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--tables", write(t, dir, "tables.yaml", serveTables), "--token-file", write(t, dir, "token", strings.Repeat("secret", 8)), "--listen", "127.0.0.1:0"}
	keys := make([]uint64, 100_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for range 3 {
		s := serveProcess(t, args...)
		c := connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: args[3]})
		table := openTable(t, c, "sum")
		worked, failed := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(failed)
			limit := time.Minute
			for i := 0; table.Push(keys, make([]float32, 2*len(keys)), kv.Options{Timeout: limit}) == nil; i++ {
				if i == 3 {
					limit = time.Second // nobody comes back to take the last ones
					close(worked)
				}
			}
		}()
		select {
		case <-worked:
		case <-failed:
			t.Fatalf("a push failed before the server was told to end: %s", s.stderr)
		}
		if took, code := s.end(syscall.SIGTERM); code != 0 || took > limit {
			t.Errorf("exit %d after %v: %s", code, took, s.stderr)
		}
		<-failed
		c.Close()
	}
}

func TestServeUsage(t *testing.T) {
	dir := t.TempDir()
	tables, short := write(t, dir, "tables.yaml", serveTables), write(t, dir, "short", "abc")
	bad := write(t, dir, "bad.yaml", "tables:\n  - {name: w, dim: many, rule: sgd}\n")
	token := filepath.Join(dir, "token")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--token-file is missing", []string{"--tables", tables}},
		{"bad.yaml:2: dim is \"many\", want a whole number from 1 to 4096", []string{"--tables", bad, "--token-file", token}},
		{"none.yaml: cannot be read", []string{"--tables", filepath.Join(dir, "none.yaml"), "--token-file", token}},
		{"3 bytes, want 16", []string{"--tables", tables, "--token-file", short}},
		{"--token-file " + dir + "/no/token: cannot be made", []string{"--tables", tables, "--token-file", dir + "/no/token"}},
		{"--threads 0", []string{"--threads", "0", "--token-file", token}},
		{"--clients 5000", []string{"--clients", "5000", "--token-file", token}},
		{"--staleness 3", []string{"--staleness", "3", "--token-file", token}},
		{"--table-sync others=asp: the tables file describes no such table", []string{"--tables", tables, "--sync", "ssp", "--table-sync", "others=asp", "--token-file", token}},
		{"--table-sync sum=bsp: trainers keep", []string{"--tables", tables, "--table-sync", "sum=bsp", "--token-file", token}},
		{"--save-every 1m0s needs --save", []string{"--save-every", "1m", "--token-file", token}},
		{"--save-every 1ms", []string{"--save-every", "1ms", "--save", "x", "--token-file", token}},
		{"--load " + dir + ": there is no model", []string{"--load", dir, "--token-file", token}},
		{"--numa", []string{"--numa", "moon", "--token-file", token}},
		{"unknown flag --table (did you mean --tables?)", []string{"--table", tables}},
	} {
		o := psrt(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		if o.code != 2 || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 1 || o.stdout != "" {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want one line that says %q", c.args, o.code, o.stdout, o.stderr, c.want)
		}
	}
}
