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
	"psrt/sched/psmsg"
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

// awaitOut waits until the map does without a server's process.
func awaitOut(t *testing.T, one job.ServerInfo) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if v := view(t); isOut(&v, &one) {
			return
		}
	}
	t.Errorf("server %d (pid %d) is not cut out", one.Server, one.PID)
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

// cProcess is a program of cTrainer that has begun.
type cProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
	wrong strings.Builder
}

func beginC(t *testing.T, env []string, program string, args ...string) *cProcess {
	t.Helper()
	p := &cProcess{t: t, cmd: exec.Command(program, args...)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), &p.wrong
	in, err := p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // one that has not ended
	late := time.AfterFunc(5*time.Minute, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	p.in, p.lines = in, bufio.NewScanner(out)
	if !p.lines.Scan() || p.lines.Text() != "begun" {
		_ = p.cmd.Wait()
		t.Fatalf("%q, %s", p.lines.Text(), p.wrong.String())
	}
	return p
}

// end has it end, and gives what it says of that.
func (p *cProcess) end() error {
	_, _ = io.WriteString(p.in, "\n")
	for p.lines.Scan() {
		p.t.Log(p.lines.Text())
	}
	return p.cmd.Wait()
}

// A trainer in C goes on while servers are killed, added and taken away: each push
// counts once, those after a save and a start of all servers too.
func TestTrainerInCWhileServersDie(t *testing.T) {
	program, rng := cTrainer(t, "replicas"), seedtest.Rand(t)
	t.Setenv("TMPDIR", t.TempDir())
	const memory = "tables:\n  - {name: sum, dim: 1, rule: sum}\n"
	for name, of := range map[string]struct {
		sync, tables, flags string
		rows                int
		happens             []string
	}{
		"asp":   {"asp", memory, "--new-tables --mem-budget 256MiB", 300, []string{"kill", "add", "kill", "remove", "stop"}},
		"bsp":   {"bsp", memory, "--new-tables --mem-budget 256MiB", 300, []string{"kill", "end"}},
		"disks": {"asp", memory + "  - {name: own, dim: 1, rule: sum, init: zero}\n", "--mem-budget 48MiB --ssd ", 40000, []string{"kill", "add", "kill", "remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, disk := t.TempDir(), ""
			if name == "disks" {
				disk = t.TempDir()
			}
			tables, token, model := write(t, dir, "tables.yaml", of.tables), filepath.Join(dir, "token"), filepath.Join(dir, "model")
			args := append([]string{"--tables", tables, "--token-file", token, "--threads", "1", "--listen", "127.0.0.1:0", "--servers", "3", "--replicas", "2", "--groups", "6",
				"--allow-same-host", "--sync", of.sync, "--load", model, "--save", model}, strings.Fields(of.flags+disk)...)
			s := serveProcess(t, args...)
			if len(s.ready.Addresses) != 3 || s.ready.Replicas != 2 || s.ready.Groups != 6 {
				t.Errorf("the readiness line: %+v", s.ready)
			}
			config := write(t, dir, "client.yaml", fmt.Sprintf("servers: [%q]\ntoken_file: %s\ntransport: tcp\ntables:\n- name: own\n  dim: 1\n  init: {kind: zero}\n  optimizer: {kind: sum}\n", s.ready.Addresses[1], token))
			trainers := []*cProcess{beginC(t, nil, program, config, strconv.Itoa(of.rows))}
			if name == "asp" { // others beside it, of which one process is two
				trainers = append(trainers, beginC(t, []string{"PSRT_READ=any"}, program, config, "300", "1", "1000000"), beginC(t, nil, program, config, "300", "2", "2000000"))
			}
			servers := 3
			for _, what := range of.happens {
				v := wholeAgain(t, servers)
				one := v.Servers[rng.IntN(len(v.Servers))]
				switch what {
				case "kill", "end": // the latter is how a server is exchanged for a newer one
					signal := map[string]syscall.Signal{"kill": syscall.SIGKILL, "end": syscall.SIGTERM}[what]
					must(t, syscall.Kill(one.PID, signal))
					awaitOut(t, one)
				case "stop": // it is silent, is cut out, wakes, and joins again
					must(t, syscall.Kill(one.PID, syscall.SIGSTOP))
					awaitOut(t, one)
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
			for _, tr := range trainers {
				if err := tr.end(); err != nil {
					t.Fatalf("%v: %s\n%s", err, tr.wrong.String(), s.stderr)
				}
			}
			before := ownSum(t, last, token)
			if before < 1 {
				t.Errorf("the sum is %v", before)
			}
			if disk != "" {
				lieOnDisks(t, disk, last, token)
			}
			if of.sync == "bsp" { // systemd's way: all processes of the unit get it
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
			for _, d := range []string{os.TempDir(), disk} {
				if left, err := filepath.Glob(filepath.Join(d, "psrt*")); d != "" && (err != nil || len(left) > 0) {
					t.Errorf("left behind: %v, %v", left, err)
				}
			}
		})
	}
}

// lieOnDisks is where the servers' rows are, which nobody else may take.
func lieOnDisks(t *testing.T, disk, address, token string) {
	t.Helper()
	c := connect(t, kv.Config{Servers: []string{address}, TokenFile: token})
	defer c.Close()
	b, err := c.StatsJSON(0)
	must(t, err)
	var r struct{ Servers []psmsg.StatsReply }
	must(t, json.Unmarshal(b, &r))
	var all psmsg.TierStats
	for _, s := range r.Servers {
		for _, table := range s.Tables {
			if table.Tiers != nil {
				all.Add(table.Tiers)
			}
		}
	}
	if all.DiskWrites == 0 || all.DiskReads == 0 {
		t.Errorf("nothing lies on disks: %+v", all)
	}
	second := psrt(t, "serve", "--token-file", token, "--tables", filepath.Join(filepath.Dir(token), "tables.yaml"), "--listen", "127.0.0.1:0", "--threads", "1", "--servers", "2", "--replicas", "2",
		"--allow-same-host", "--mem-budget", "64MiB", "--ssd", disk)
	if second.code != 2 || !strings.Contains(second.stderr, disk) {
		t.Errorf("a second job with the same directory: exit code %d, %s", second.code, second.stderr)
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
		"give --servers 2 or more":     "--replicas 2",
		"add --allow-same-host":        "--servers 2 --replicas 2",
		"for servers with --replicas":  "--rack a",
		"and --weight are for servers": "--weight 2",
		"all 2 servers that are":       "--servers 2 --groups 4 --weight 2",
		"--weight 0: want":             "--servers 2 --groups 4 --weight 0",
		"--groups 0: must be at least": "--groups 0",
		"has no effect without":        "--servers 2 --allow-same-host",
		"describe all of them":         "--new-tables --servers 2 --groups 4 --mem-budget 64MiB --ssd " + dir,
		"raise --mem-budget to ":       "--servers 2 --groups 4 --mem-budget 4MiB --ssd " + dir,
		"one less than --servers":      "--servers 2 --coordinator 127.0.0.1:1 --rank 2",
		"--rank 256":                   "--servers 2 --groups 2 --coordinator 127.0.0.1:1 --rank 256",
	} {
		if r := psrt(t, append(args, strings.Fields(more)...)...); r.code != 2 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit code %d, %q", more, r.code, r.stderr)
		}
	}
}

// Who is ended while it waits for the other servers has not failed: the first, to which
// they come, and the second, to whom the first says nothing, with replicas and without.
func TestReplicasEndedBeforeTheyBegin(t *testing.T) {
	begin := func(rank, replicas, meet string) *exec.Cmd {
		cmd := command(t.Context(), "serve", "--token-file", filepath.Join(t.TempDir(), "token"), "--servers", "2", "--replicas", replicas, "--rank", rank,
			"--coordinator", meet, "--listen", "127.0.0.1:0")
		cmd.Stdout, cmd.Stderr = new(strings.Builder), new(strings.Builder)
		must(t, cmd.Start())
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		t.Helper()
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s%s", err, cmd.Stdout, cmd.Stderr)
		}
	}
	meet := freeAddr(t)
	cmd := begin("0", "2", meet)
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", meet)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(late) {
			t.Fatalf("it does not listen: %v, %s", err, cmd.Stderr)
		}
	}
	end(cmd)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer mute.Close()
	must(t, mute.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)))
	for _, replicas := range []string{"1", "2"} {
		cmd = begin("1", replicas, mute.Addr().String())
		c, err := mute.Accept()
		must(t, err)
		end(cmd)
		c.Close()
	}
}

// Servers with replicas go on with what one has saved, and refuse it where a part is damaged.
func TestReplicasLoad(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	tables, token, model := write(t, dir, "tables.yaml", serveTables), filepath.Join(dir, "token"), filepath.Join(dir, "model")
	args := []string{"--tables", tables, "--token-file", token, "--threads", "1", "--listen", "127.0.0.1:0", "--load", model, "--save", model}
	chained := append(args, "--servers", "2", "--replicas", "2", "--groups", "4", "--allow-same-host")
	for round, args := range [][]string{args, chained, chained, args} {
		s := serveProcess(t, args...)
		pushSum(t, s.ready.Address, token)
		c := connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: token})
		if got := pullSum(t, openTable(t, c, "sum")); got != float32(round+1) {
			t.Errorf("the sum is %v after %d pushes", got, round+1)
		}
		c.Close()
		if _, code := s.end(syscall.SIGTERM); code != 0 {
			t.Errorf("round %d ended with %d: %s", round, code, s.stderr)
		}
	}
	damaged := damage(t, model)
	if r := psrt(t, append([]string{"serve"}, chained...)...); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, filepath.Base(damaged)) {
		t.Errorf("with %s damaged: exit code %d, %s%s", damaged, r.code, r.stdout, r.stderr)
	}
}
