package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"psrt/sched/coord/etcd"
	"psrt/sched/coord/etcd/etcdtest"
)

// links counts the TCP connections of a process to a port.
func links(t *testing.T, pid int, port string) (n int) {
	t.Helper()
	number, err := strconv.Atoi(port)
	must(t, err)
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	held := map[string]bool{}
	fds, err := filepath.Glob(filepath.Join(proc, "fd", "*"))
	must(t, err)
	for _, fd := range fds {
		what, _ := os.Readlink(fd) // it may be closed by now
		held[what] = true
	}
	if len(held) < 3 {
		t.Fatalf("process %d has files %v: it is gone, or nobody sees them", pid, held)
	}
	for _, family := range []string{"tcp", "tcp6"} {
		table, _ := os.ReadFile(filepath.Join(proc, "net", family)) // tcp6 is not everywhere
		for _, line := range strings.Split(string(table), "\n") {
			f := strings.Fields(line) // sl, local, remote, ..., inode
			if len(f) > 9 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", number)) && held["socket:["+f[9]+"]"] {
				n++
			}
		}
	}
	return n
}

// A job trains over the user's etcd, which wants certificates, a user and a password,
// and leaves nothing there. Where one command starts all ranks, it alone has connections
// to the etcd; where ranks are started by hand, servers have, and workers have none.
func TestGuardedCoordinator(t *testing.T) {
	own := etcdtest.NewAuthority(t, "own")
	address := etcdtest.Start(t, own)
	port := address[strings.LastIndexByte(address, ':')+1:]
	cert, key := own.Sign(t, "job")
	flags, digest, g := gatedJob(t)
	t.Setenv("PSRT_ETCD_USER", etcdtest.User)
	t.Setenv("PSRT_ETCD_PASSWORD", etcdtest.Password)
	flags = append(flags, "--servers", "2", "--workers", "2", "--replicas", "2", "--groups", "4", "--allow-same-host",
		"--coordinator", address, "--tls-ca", own.File, "--tls-cert", cert, "--tls-key", key)
	flags = flags[:len(flags):len(flags)]
	linked := func(t *testing.T, who string, pid int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s has a connection to %s", who, address), func() bool { return links(t, pid, port) > 0 })
	}
	unlinked := func(t *testing.T, who string, pid int) {
		t.Helper()
		if n := links(t, pid, port); n != 0 {
			t.Errorf("%s has %d connections to %s", who, n, address)
		}
	}
	t.Run("one command", func(t *testing.T) {
		g.let(t, faultPasses-1)
		ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
		defer cancel()
		v := begin(ctx, t, flags...)
		linked(t, "psrt", v.c.Process.Pid)
		for rank := range 4 {
			unlinked(t, fmt.Sprint("rank ", rank), v.rankPid(strconv.Itoa(rank)))
		}
		g.let(t, faultPasses)
		v.result(ctx, digest)
	})
	t.Run("by hand", func(t *testing.T) {
		g.let(t, faultPasses-1)
		ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
		defer cancel()
		args := append(flags, "--world-size", "4", "--rendezvous", freeAddr(t), "--token-file", write(t, t.TempDir(), "token", strings.Repeat("secret", 8)))
		var ranks [4]*victim
		for rank := range ranks {
			ranks[rank] = startVictim(ctx, t, os.Args[0], append(args[:len(args):len(args)], "--rank", strconv.Itoa(rank))...)
		}
		ranks[2].await(ctx)
		for rank, v := range ranks[:2] {
			linked(t, fmt.Sprint("server ", rank), v.c.Process.Pid)
		}
		for rank, v := range ranks[2:] {
			unlinked(t, fmt.Sprint("worker ", rank), v.c.Process.Pid)
		}
		g.let(t, faultPasses)
		ranks[2].result(ctx, digest)
		for rank, v := range ranks {
			select {
			case <-v.ended:
			case <-ctx.Done():
				t.Fatalf("rank %d does not end: %s", rank, v.said.text())
			}
			if v.err != nil {
				t.Errorf("rank %d: %v: %s", rank, v.err, v.said.text())
			}
		}
	})
	s, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{address}, TLS: own.Client(t), User: etcdtest.User, Password: etcdtest.Password, Prefix: etcdtest.Prefix})
	must(t, err)
	defer s.Close()
	kvs, _, err := s.List(t.Context(), "")
	must(t, err)
	for _, kv := range kvs {
		if !strings.Contains(kv.Key, "end/") { // a rank that says so late says it to nobody
			t.Errorf("left in etcd: %v", kv)
		}
	}
}

// Whom the user's etcd does not let in is told why, and what to look at.
func TestGuardedCoordinatorRefuses(t *testing.T) {
	own, other := etcdtest.NewAuthority(t, "own"), etcdtest.NewAuthority(t, "other")
	address := etcdtest.Start(t, own)
	cert, key := own.Sign(t, "job")
	otherCert, otherKey := other.Sign(t, "job")
	data := write(t, t.TempDir(), "train.libffm", rows(200, 1))
	t.Setenv("PSRT_ETCD_USER", etcdtest.User)
	for name, c := range map[string]struct{ password, ca, cert, key, says, remedy string }{
		"another password":        {"guess", own.File, cert, key, "invalid user ID or password", "PSRT_ETCD_PASSWORD"},
		"another authority":       {etcdtest.Password, other.File, cert, key, "unknown authority", "--tls-ca"},
		"a certificate of others": {etcdtest.Password, own.File, otherCert, otherKey, "certificate required", "--tls-cert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PSRT_ETCD_PASSWORD", c.password)
			var o outcome
			for range 20 { // etcd's client gives a busy machine some seconds
				o = psrt(t, "train", "--data", data, "--servers", "2", "--workers", "2", "--replicas", "2", "--allow-same-host",
					"--coordinator", address, "--tls-ca", c.ca, "--tls-cert", c.cert, "--tls-key", c.key)
				if strings.Contains(o.stderr, c.says) || !strings.Contains(o.stderr, "deadline exceeded") {
					break
				}
			}
			if o.code != 1 || !strings.Contains(o.stderr, c.says) || !strings.Contains(o.stderr, address) || !strings.Contains(o.stderr, c.remedy) {
				t.Errorf("exit %d: %s: it names no address, or no remedy, or not that %q", o.code, o.stderr, c.says)
			}
		})
	}
}
