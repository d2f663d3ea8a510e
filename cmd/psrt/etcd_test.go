package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"psrt/sched/coord/etcd"
	"psrt/sched/train"
)

// etcdMain is an etcd in a process of its own.
func etcdMain(dir, url string) {
	if _, err := etcd.Start(context.Background(), dir, url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// startEtcd runs it until the returned function kills it.
func startEtcd(t *testing.T, dir, url string) (kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PSRT_TEST_ETCD="+dir, "PSRT_TEST_ETCD_URL="+url)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("etcd says %q, %v", line, err)
	}
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}
}

// The user's etcd is killed while psrt trains and comes back: training goes on, and
// gives the same model. Who needs it meanwhile says for whom it waits. Nothing is left in
// etcd.
func TestCoordinatorKilled(t *testing.T) {
	t.Parallel()
	url := "http://" + freeAddr(t)
	const passes = 40
	flags, g := gated(t, rows(3000, 1), passes)
	flags = append(flags, "--servers", "2", "--workers", "2", "--sync", "bsp", "--dim", "4", "--batch", "128", "--json")
	var own, with train.Result
	for _, how := range [][]string{nil, {"--coordinator", "embedded"}} {
		o := psrt(t, append(flags, how...)...)
		var res train.Result
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil {
			t.Fatalf("%v: %s", err, o.stderr)
		}
		if own.Digest == "" {
			own = res
		}
		if res.Digest != own.Digest {
			t.Errorf("%v: digest %s, want %s", how, res.Digest, own.Digest)
		}
	}
	g.let(t, passes-1)
	where := t.TempDir()
	kill := startEtcd(t, where, url)
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	c := command(ctx, append(flags, "--coordinator", url, "--stall-after", "700ms")...)
	said := &watched{want: "epoch  2", seen: make(chan struct{})}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await := func() {
		t.Helper()
		select {
		case <-said.seen:
		case <-ctx.Done():
			t.Fatalf("never %q: %s", said.want, said.text())
		}
	}
	await()
	for range 2 {
		said.next("is away")
		kill()
		await()
		said.next(" waits for the coordinator since ") // who has to meet others at the end of a pass
		await()
		said.next("is back")
		kill = startEtcd(t, where, url)
		await()
	}
	defer func() { kill() }()
	g.let(t, passes)
	if err := c.Wait(); err != nil || json.Unmarshal([]byte(out.String()), &with) != nil || with.Digest != own.Digest {
		t.Fatalf("%v, digest %s, want %s: %s", err, with.Digest, own.Digest, said.text())
	}
	s, err := etcd.Dial(ctx, etcd.Config{Endpoints: []string{url}, Prefix: "/psrt/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if kvs, _, err := s.List(ctx, ""); err != nil || len(kvs) > 0 {
		t.Errorf("left in etcd: %v, %v", kvs, err)
	}
}

// The coordinator of a job with replicas is killed, and then a server, too: what one can
// do without the other goes on, changes wait, and when the coordinator is back all of it
// ends with the undisturbed model.
func TestCoordinatorAndServerKilled(t *testing.T) {
	t.Parallel()
	flags, digest, g := gatedJob(t)
	where, url := t.TempDir(), "http://"+freeAddr(t)
	kill := startEtcd(t, where, url)
	defer func() { kill() }()
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(flags, "--servers", "3", "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host", "--coordinator", url)...)
	if !v.whole(ctx, 0) {
		t.Fatalf("it has ended: %s", v.said.text())
	}
	before, pid := v.epoch(ctx), v.pid(1)
	v.said.next("is away")
	kill()
	v.await(ctx)
	v.said.next("is started again")
	if pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Fatalf("no server 1 to kill (pid %d): %s", pid, v.said.text())
	}
	v.await(ctx)
	v.said.next("is back")
	kill = startEtcd(t, where, url)
	v.await(ctx)
	if !v.whole(ctx, before) && v.err != nil {
		t.Fatalf("%v: %s", v.err, v.said.text())
	}
	g.let(t, faultPasses)
	v.result(ctx, digest)
}

// next waits for other words, in what is said from here on.
func (w *watched) next(want string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset()
	w.want, w.done, w.seen = want, false, make(chan struct{})
}

func TestBadCoordinators(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(200, 1))
	for _, c := range []struct{ args, says string }{
		{"--coordinator https://127.0.0.1:1 --tls-cert a", "belong together"},
		{"--coordinator https://127.0.0.1:1 --tls-ca /nope", "--tls-ca"},
		{"--coordinator https://127.0.0.1:1/path", "want https://HOST:PORT"},
		{"--coordinator https://u:p@127.0.0.1:1", "PSRT_ETCD_USER"},
		{"--rendezvous 127.0.0.1:1", "--rendezvous is for"},
		{"--rank 0 --world-size 2 --coordinator http://127.0.0.1:1", "--rendezvous HOST:PORT"},
	} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(c.args)...)...); o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, o.code, c.says, o.stderr)
		}
	}
}
