package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/job"
	"psrt/sched/kv"
)

// view is the servers as psrt server ls shows them.
func view(t *testing.T, args ...string) (v job.View) {
	t.Helper()
	r := psrt(t, append([]string{"server", "ls", "--json"}, args...)...)
	if r.code != 0 || json.Unmarshal([]byte(r.stdout), &v) != nil {
		t.Fatalf("psrt server ls: %d, %s %s", r.code, r.stdout, r.stderr)
	}
	return v
}

// whole waits until so many servers have all replicas.
func wholeAgain(t *testing.T, servers int, args ...string) job.View {
	t.Helper()
	var v job.View
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if v = view(t, args...); v.Whole() && len(v.Servers) == servers {
			return v
		}
	}
	t.Fatalf("%+v", v)
	return v
}

// cTrainer compiles a program of cmd/libpsrt/testdata against the library.
func cTrainer(t *testing.T, name string) string {
	t.Helper()
	dir, lib := t.TempDir(), filepath.Join("..", "libpsrt")
	for _, c := range [][]string{
		{"go", "build", "-buildvcs=false", "-buildmode=c-shared", "-o", filepath.Join(dir, "libpsrt.so"), "./" + lib},
		{"gcc", "-std=gnu99", "-O1", "-Wall", "-Werror", "-I", lib, "-o", filepath.Join(dir, name), filepath.Join(lib, "testdata", name+".c"), "-L" + dir, "-Wl,-rpath," + dir, "-lpsrt"},
	} {
		if b, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, b)
		}
	}
	return filepath.Join(dir, name)
}

// A trainer in C goes on while servers are killed, added and taken away: each push
// counts once, those after a save and a start of all servers too.
func TestTrainerInCWhileServersDie(t *testing.T) {
	program, rng := cTrainer(t, "replicas"), seedtest.Rand(t)
	t.Setenv("TMPDIR", t.TempDir())
	for sync, happens := range map[string][]string{"asp": {"kill", "add", "kill", "remove", "stop"}, "bsp": {"kill", "end"}} {
		t.Run(sync, func(t *testing.T) {
			dir := t.TempDir()
			tables, token, model := write(t, dir, "tables.yaml", "tables:\n  - {name: sum, dim: 1, rule: sum}\n"), filepath.Join(dir, "token"), filepath.Join(dir, "model")
			args := []string{"--tables", tables, "--new-tables", "--token-file", token, "--threads", "1", "--listen", "127.0.0.1:0", "--servers", "3", "--replicas", "2", "--groups", "6",
				"--allow-same-host", "--sync", sync, "--load", model, "--save", model, "--mem-budget", "256MiB"}
			s := serveProcess(t, args...)
			if len(s.ready.Addresses) != 3 || s.ready.Replicas != 2 || s.ready.Groups != 6 {
				t.Errorf("the readiness line: %+v", s.ready)
			}
			config := write(t, dir, "client.yaml", fmt.Sprintf("servers: [%q]\ntoken_file: %s\ntransport: tcp\ntables:\n- name: own\n  dim: 1\n  init: {kind: zero}\n  optimizer: {kind: sum}\n", s.ready.Addresses[1], token))
			cmd := exec.Command(program, config)
			var wrong strings.Builder
			cmd.Stderr = &wrong
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || lines.Text() != "begun" {
				t.Fatalf("%q, %s, %s", lines.Text(), wrong.String(), s.stderr)
			}
			servers := 3
			for _, what := range happens {
				v := wholeAgain(t, servers)
				one := v.Servers[rng.IntN(len(v.Servers))]
				switch what {
				case "kill", "end": // the latter is how a server is exchanged for a newer one
					signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "end": syscall.SIGTERM}[what]
					must(t, syscall.Kill(one.PID, signal))
					for end := time.Now().Add(time.Minute); view(t).Epoch == v.Epoch && time.Now().Before(end); {
						time.Sleep(20 * time.Millisecond)
					}
				case "stop": // it is silent, is cut out, wakes, and joins again
					must(t, syscall.Kill(one.PID, syscall.SIGSTOP))
					for end := time.Now().Add(time.Minute); view(t).Epoch == v.Epoch && time.Now().Before(end); {
						time.Sleep(20 * time.Millisecond)
					}
					must(t, syscall.Kill(one.PID, syscall.SIGCONT))
				case "add":
					servers++
					if r := psrt(t, "server", "add"); r.code != 0 || !strings.Contains(r.stdout, "server 3 has joined") {
						t.Errorf("psrt server add: %d, %s %s", r.code, r.stdout, r.stderr)
					}
				case "remove":
					servers--
					if r := psrt(t, "server", "remove", strconv.Itoa(one.Server)); r.code != 0 {
						t.Errorf("psrt server remove: %d, %s %s", r.code, r.stdout, r.stderr)
					}
				}
			}
			last := wholeAgain(t, 3).Servers[0].Addr
			_, _ = io.WriteString(in, "\n")
			for lines.Scan() {
				t.Log(lines.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s\n%s", err, wrong.String(), s.stderr)
			}
			before := ownSum(t, last, token)
			if before < 1 {
				t.Errorf("the sum is %v", before)
			}
			if sync == "bsp" { // systemd's way: all processes of the unit get it
				for _, one := range view(t).Servers {
					must(t, syscall.Kill(one.PID, syscall.SIGTERM))
				}
			}
			if _, code := s.end(syscall.SIGTERM); code != 0 {
				t.Fatalf("ended with %d: %s", code, s.stderr)
			}
			s = serveProcess(t, args...)
			if after := ownSum(t, s.ready.Address, token); after != before {
				t.Errorf("the sum is %v, it was saved as %v", after, before)
			}
			if _, code := s.end(syscall.SIGTERM); code != 0 {
				t.Errorf("ended with %d: %s", code, s.stderr)
			}
			if left, err := filepath.Glob(filepath.Join(os.TempDir(), "psrt*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// ownSum is a row of the table that the C program has described.
func ownSum(t *testing.T, address, token string) float32 {
	t.Helper()
	c := connect(t, kv.Config{Servers: []string{address}, TokenFile: token})
	defer c.Close()
	values := make([]float32, 1)
	must(t, openTable(t, c, "own").Pull([]uint64{7919}, values, kv.Options{}))
	return values[0]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What servers with replicas cannot be is refused before anything begins.
func TestReplicasRefused(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--token-file", filepath.Join(dir, "token"), "--tables", write(t, dir, "tables.yaml", serveTables), "--listen", "127.0.0.1:0"}
	for says, more := range map[string]string{
		"give --servers 2 or more":      "--replicas 2",
		"add --allow-same-host":         "--servers 2 --replicas 2",
		"for servers with --replicas":   "--rack a",
		"--groups 0: must be at least":  "--groups 0",
		"has no effect without":         "--servers 2 --allow-same-host",
		"--ssd is not for servers with": "--servers 2 --groups 4 --mem-budget 64MiB --ssd " + dir,
		"one less than --servers":       "--servers 2 --coordinator 127.0.0.1:1 --rank 2",
		"--rank 256":                    "--servers 2 --groups 2 --coordinator 127.0.0.1:1 --rank 256",
	} {
		if r := psrt(t, append(args, strings.Fields(more)...)...); r.code != 2 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit code %d, %q", more, r.code, r.stderr)
		}
	}
}

// Who is ended while it waits for the other servers has not failed.
func TestReplicasEndedBeforeTheyBegin(t *testing.T) {
	meet := freeAddr(t)
	cmd := command(t.Context(), "serve", "--token-file", filepath.Join(t.TempDir(), "token"), "--servers", "2", "--replicas", "2", "--rank", "0",
		"--coordinator", meet, "--listen", "127.0.0.1:0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", meet)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not listen: %v, %s", err, said.String())
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
}
