package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/cluster"
	"psrt/sched/doctor"
)

// diagnose runs psrt doctor somewhere, and gives what it found and how it ended.
func diagnose(t *testing.T, run func(ctx context.Context, args ...string) *exec.Cmd, args ...string) ([]doctor.Finding, int) {
	t.Helper()
	o := onCluster(t, func(ctx context.Context) *exec.Cmd {
		return run(ctx, append([]string{os.Args[0], "doctor", "--json"}, args...)...)
	})
	var answer struct{ Findings []doctor.Finding }
	if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil {
		t.Fatalf("exit %d, %v: %s%s", o.code, err, o.stdout, o.stderr)
	}
	t.Logf("diagnosed in %v", o.took.Round(time.Millisecond))
	return answer.Findings, o.code
}

// here runs a command on this machine.
func here(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, args[0], args[1:]...)
}

// expect looks for a finding.
func expect(t *testing.T, all []doctor.Finding, peer, name, state string, says ...string) {
	t.Helper()
	for _, f := range all {
		if f.Name != name || f.Peer != peer {
			continue
		}
		if f.State != state || state != doctor.OK && f.Mend == "" {
			t.Errorf("%+v, want %s", f, state)
		}
		for _, s := range says {
			if !strings.Contains(f.Figure, s) {
				t.Errorf("%q does not say %q", f.Figure, s)
			}
		}
		return
	}
	t.Errorf("no finding %q of %q: %+v", name, peer, all)
}

// serving is a psrt serve on a host of a cluster, at port 7700.
func serving(t *testing.T, h *cluster.Hosts, i int, token string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := h.Command(ctx, i, os.Args[0], "serve", "--listen", h.Addr(i)+":7700", "--token-file", token, "--new-tables")
	c.Env = append(os.Environ(), "PSRT_TEST_MAIN=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGCONT) // it may be stopped
		cancel()
		_ = c.Wait() // killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "ready") {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// Faults that only other hosts show: the peer is named, and its fault.
func TestDoctorOfPeers(t *testing.T) {
	t.Parallel()
	h := cluster.New(t, 5)
	token := write(t, t.TempDir(), "token", strings.Repeat("secret", 8))
	other := write(t, t.TempDir(), "token", strings.Repeat("another", 8))
	at := func(i int) string { return h.Addr(i) + ":7700" }
	on1 := func(ctx context.Context, args ...string) *exec.Cmd { return h.Command(ctx, 1, args...) }
	servers := map[int]*exec.Cmd{}
	for i := 2; i <= 4; i++ {
		servers[i] = serving(t, h, i, token)
	}
	peers := []string{"--peers", at(2) + "," + at(3) + "," + at(4), "--token-file", token}

	t.Run("all well", func(t *testing.T) {
		found, code := diagnose(t, on1, peers...)
		for i := 2; i <= 4; i++ {
			expect(t, found, at(i), "peer", doctor.OK, "from "+h.Addr(1)+" (eth0), answers in ")
			expect(t, found, at(i), "packets", doctor.OK, "of 1500 bytes")
		}
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("another token", func(t *testing.T) {
		found, code := diagnose(t, on1, "--peers", at(2), "--token-file", other)
		if expect(t, found, at(2), "peer", doctor.Warn, "another token"); code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("without a token", func(t *testing.T) {
		found, _ := diagnose(t, on1, "--peers", at(2))
		expect(t, found, at(2), "peer", doctor.OK, "answers in ")
	})
	t.Run("dead peer", func(t *testing.T) {
		_ = syscall.Kill(-servers[2].Process.Pid, syscall.SIGKILL)
		_ = servers[2].Wait() // killed
		found, code := diagnose(t, on1, peers...)
		expect(t, found, at(2), "peer", doctor.Missing, "dead: the host is there, and nobody listens at port 7700")
		expect(t, found, at(3), "peer", doctor.OK)
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("stopped peer", func(t *testing.T) {
		_ = syscall.Kill(-servers[3].Process.Pid, syscall.SIGSTOP)
		defer syscall.Kill(-servers[3].Process.Pid, syscall.SIGCONT)
		for _, args := range [][]string{peers, peers[:2]} { // with and without the token
			found, _ := diagnose(t, on1, args...)
			expect(t, found, at(3), "peer", doctor.Missing, "stopped: ")
			expect(t, found, at(4), "peer", doctor.OK)
		}
	})
	t.Run("cut off", func(t *testing.T) {
		defer h.Cut(3, 1)()
		found, _ := diagnose(t, on1, peers...)
		expect(t, found, at(3), "peer", doctor.Missing, "unreachable: no answer in ")
		expect(t, found, at(4), "peer", doctor.OK)
	})
	t.Run("no such host", func(t *testing.T) {
		gone := h.Addr(77) + ":7700"
		found, _ := diagnose(t, on1, "--peers", gone+",node.invalid")
		expect(t, found, gone, "peer", doctor.Missing, "unreachable: ")
		expect(t, found, "node.invalid", "peer", doctor.Missing, "does not resolve")
	})
	t.Run("wrong interface", func(t *testing.T) {
		h.AddLink(1, "docker0", "172.17.0.1/16")
		found, code := diagnose(t, on1, append([]string{"--interface", "docker0"}, peers...)...)
		expect(t, found, at(4), "peer", doctor.Missing, "wrong interface: "+h.Addr(4)+" is reached by eth0 ("+h.Addr(1)+"), not by docker0")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
		found, _ = diagnose(t, on1, append([]string{"--interface", "eth0"}, peers...)...)
		expect(t, found, at(4), "peer", doctor.OK)
		expect(t, found, "", "address for other hosts", doctor.OK, h.Addr(1)+" of eth0")
	})
	t.Run("MTU mismatch", func(t *testing.T) {
		mtu := func(i, n int) {
			if out, err := h.Run(t.Context(), i, "ip", "link", "set", "eth0", "mtu", strconv.Itoa(n)); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		mtu(4, 1400)
		mtu(5, 1300)
		defer mtu(4, 1500)
		found, _ := diagnose(t, on1, "--peers", at(4)+","+h.Addr(5)+","+at(3))
		expect(t, found, at(4), "packets", doctor.Warn, "MTU mismatch: eth0 here has 1500, the peer 1400")
		expect(t, found, h.Addr(5), "packets", doctor.Warn, "MTU mismatch: eth0 here has 1500, on the way to the peer packets get through up to about 1")
		expect(t, found, at(3), "packets", doctor.OK)
	})
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return // this kernel has no IPv6
	}
	t.Run("MTU mismatch over IPv6", func(t *testing.T) {
		six := func(i int) string { return fmt.Sprintf("fd4d::%d", i) }
		for _, i := range []int{1, 3, 5} {
			if out, err := h.Run(t.Context(), i, "ip", "addr", "add", six(i)+"/64", "dev", "eth0", "nodad"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		found, _ := diagnose(t, on1, "--peers", six(3)+","+six(5))
		expect(t, found, six(3), "packets", doctor.OK, "of 1500 bytes")
		expect(t, found, six(5), "packets", doctor.Warn, "MTU mismatch: eth0 here has 1500, on the way to the peer packets get through up to about 1")
	})
}

// Started by mpirun, all ranks look at themselves and at each other, and what is wrong
// with one is told with its name.
func TestDoctorUnderMPIRun(t *testing.T) {
	t.Parallel()
	h := cluster.New(t, 3)
	if out, err := h.Run(t.Context(), 2, "ip", "link", "set", "eth0", "mtu", "1400"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mpirun := func(ctx context.Context, args ...string) *exec.Cmd {
		return h.Command(ctx, 0, append(h.MPIRun(t, 3), args...)...)
	}
	found, _ := diagnose(t, mpirun)
	expect(t, found, "rank 0 on h1 to rank 1 on h2", "packets", doctor.Warn, "MTU mismatch: eth0 here has 1500, the peer 1400")
	expect(t, found, "rank 2 on h3 to rank 1 on h2", "packets", doctor.Warn, "MTU mismatch: eth0 here has 1500, the peer 1400")
	for r, host := range []string{"h1", "h2", "h3"} {
		expect(t, found, fmt.Sprintf("rank %d on %s", r, host), "address for other hosts", doctor.OK, h.Addr(r+1)+" of eth0")
	}
	for _, f := range found {
		if f.Name == "packets" && f.Peer != "rank 0 on h1 to rank 1 on h2" && f.Peer != "rank 2 on h3 to rank 1 on h2" || f.Name == "peer" {
			t.Errorf("%+v", f)
		}
	}
}

// weak runs a command without the rights that root has over memory and files.
func weak(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "setpriv", append([]string{"--bounding-set", "-ipc_lock,-dac_override,-dac_read_search,-sys_resource,-bpf,-sys_admin", "sh", "-c", `ulimit -l 64; exec "$@"`, "sh"}, args...)...)
}

func TestDoctorOfThisMachine(t *testing.T) {
	t.Parallel()
	cluster.Need(t, cluster.Namespaces) // root, and util-linux
	t.Run("low memlock", func(t *testing.T) {
		found, code := diagnose(t, weak, "--lock", "1GiB")
		expect(t, found, "", "locked memory", doctor.Missing, "RLIMIT_MEMLOCK is 65536")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("more than there is", func(t *testing.T) {
		bare := func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, args[0], args[1:]...)
		}
		found, code := diagnose(t, bare, "--lock", "1000TiB")
		expect(t, found, "", "locked memory", doctor.Missing, "1024000 GiB are to be locked")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("missing permission", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "rows")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 4242, 4242); err != nil {
			t.Fatal(err)
		}
		found, code := diagnose(t, weak, "--ssd", dir)
		expect(t, found, "", "directory "+dir, doctor.Missing, "cannot write there: permission denied")
		expect(t, found, "", "eBPF", doctor.Warn, "CAP_BPF")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("full disk", func(t *testing.T) {
		dir := t.TempDir()
		full := func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "unshare", append([]string{"-m", "--propagation", "private", "sh", "-c",
				`mount -t tmpfs -o size=1m psrt-full "$0" && { dd if=/dev/zero of="$0/rows" bs=64k 2>/dev/null; exec "$@"; }`, dir}, args...)...)
		}
		found, code := diagnose(t, full, "--ssd", dir)
		expect(t, found, "", "directory "+dir, doctor.Missing, "0 bytes free of 1024 KiB, tmpfs, which is memory")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("port in use", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addr := l.Addr().String()
		found, code := diagnose(t, here, "--listen", addr+",127.0.0.1:0,192.0.2.1:7700")
		expect(t, found, "", "listening at "+addr, doctor.Missing, fmt.Sprintf("port in use by process %d (", os.Getpid()))
		expect(t, found, "", "listening at 127.0.0.1:0", doctor.OK)
		expect(t, found, "", "listening at 192.0.2.1:7700", doctor.Missing, "does not have that address")
		if code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("wrong library", func(t *testing.T) {
		dir := t.TempDir()
		libc, err := filepath.Glob("/lib/*/libm.so.6")
		if err != nil || len(libc) == 0 {
			t.Fatalf("no library to put there: %v", err)
		}
		text, err := os.ReadFile(libc[0])
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "libibverbs.so.1", string(text))
		write(t, dir, "libpmix.so.2", "GROUP ( libpmix.so.2.9.3 )\n")
		c := func(ctx context.Context, args ...string) *exec.Cmd {
			return here(ctx, append([]string{"env", "LD_LIBRARY_PATH=" + dir}, args...)...)
		}
		found, _ := diagnose(t, c)
		expect(t, found, "", "library libibverbs", doctor.Warn, dir+"/libibverbs.so.1: wrong library: it is no libibverbs at all")
		expect(t, found, "", "library PMIx", doctor.Warn, "wrong library: bad magic number")
	})
	t.Run("nothing asked for", func(t *testing.T) {
		if found, code := diagnose(t, here); code != 0 || len(found) < 15 {
			t.Errorf("exit %d with %d findings", code, len(found))
		}
	})
}
