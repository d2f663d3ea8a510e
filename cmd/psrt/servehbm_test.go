package main

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/kv"
)

// TestServeOnDevice: trainers of their own have the rows of a server without a device from one
// with its twin: alone, of several servers, and with replicas.
func TestServeOnDevice(t *testing.T) {
	dir := t.TempDir()
	tables := write(t, dir, "tables.yaml", "tables:\n  - {name: sum, dim: 2, rule: adagrad}\n")
	keys := make([]uint64, 3000)
	for i := range keys {
		keys[i] = uint64(i) * 7919
	}
	rows := func(args ...string) []float32 {
		token := filepath.Join(dir, "token")
		s := serveProcess(t, append([]string{"--token-file", token, "--tables", tables, "--listen", "127.0.0.1:0"}, args...)...)
		c := connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: token})
		sum, values, grads := openTable(t, c, "sum"), make([]float32, 2*len(keys)), make([]float32, 2*500)
		for i := range grads {
			grads[i] = float32(i%13) / 8
		}
		for round := range 12 {
			from := round * 250 % 2500
			must(t, sum.Push(keys[from:from+500], grads, kv.Options{}))
		}
		must(t, sum.Pull(keys, values, kv.Options{}))
		c.Close()
		if took, code := s.end(syscall.SIGTERM); code != 0 || took > 5*time.Minute {
			t.Errorf("%v: exit code %d after %v, %s", args, code, took, s.stderr)
		}
		if on := strings.Contains(s.stderr.String(), "the host twin of GPU memory"); on != slices.Contains(args, "--hbm-budget") {
			t.Errorf("%v: it says %q", args, s.stderr)
		}
		return values
	}
	want := rows()
	for _, more := range []string{"", "--servers 2", "--servers 2 --replicas 2 --groups 4 --allow-same-host"} {
		if got := rows(append(strings.Fields(more), "--hbm-budget", "4MiB", "--hbm-device", "host")...); !slices.Equal(got, want) {
			t.Errorf("%q: rows are others on the device", more)
		}
	}
}

// TestServeOnDeviceRefused: what a device for trainers of their own cannot be.
func TestServeOnDeviceRefused(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--token-file", filepath.Join(dir, "token"), "--tables", write(t, dir, "tables.yaml", serveTables), "--listen", "127.0.0.1:0"}
	for says, more := range map[string]string{
		"no effect without --hbm-budget": "--hbm-device host",
		"device \"moon\"":                "--hbm-budget 1MiB --hbm-device moon",
		"give --threads 3":               "--hbm-budget 1MiB --hbm-device host,host,host --threads 2",
		"leave --new-tables out":         "--hbm-budget 1MiB --new-tables",
	} {
		for _, servers := range []string{"", "--servers 2", "--servers 2 --groups 4"} {
			all := append(slices.Clone(args), strings.Fields(more+" "+servers)...)
			if r := psrt(t, all...); r.code != 2 || !strings.Contains(r.stderr, says) {
				t.Errorf("%s %s: exit code %d, %q", more, servers, r.code, r.stderr)
			}
		}
	}
}
