package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/train"
)

// freeAddr is a loopback address nobody listens on, and nobody is given before it is used:
// its port is below those that the kernel hands out to whoever asks for any.
func freeAddr(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	const low = 10_000 // below are the ports of services
	if first <= low {
		first = 1 << 15 // the kernel's range leaves no room
	}
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(first-low)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Four ranks started one by one, over tcp, give the model that psrt gives when
// it starts them itself.
func TestRanksByHand(t *testing.T) {
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(3000, 1)), write(t, dir, "token", strings.Repeat("secret", 8))
	job := []string{"train", "--data", data, "--servers", "2", "--workers", "2", "--sync", "bsp", "--transport", "tcp"}
	args := append(job, "--world-size", "4", "--coordinator", freeAddr(t), "--token-file", token, "--json")
	var out [4]outcome
	var wg sync.WaitGroup
	for rank := range out {
		wg.Go(func() { out[rank] = psrt(t, append(args[:len(args):len(args)], "--rank", fmt.Sprint(rank))...) })
	}
	wg.Wait()
	for rank, o := range out {
		if o.code != 0 || (o.stdout != "") != (rank == 2) {
			t.Errorf("rank %d: exit %d, stdout %q, stderr %s", rank, o.code, o.stdout, o.stderr)
		}
	}
	own := psrt(t, append(job, "--json")...)
	var byHand, started train.Result
	if json.Unmarshal([]byte(out[2].stdout), &byHand) != nil || json.Unmarshal([]byte(own.stdout), &started) != nil {
		t.Fatalf("no results: %q, %q", out[2].stdout, own.stdout)
	}
	if byHand.Digest != started.Digest || byHand.Transport != "tcp" {
		t.Errorf("by hand %s over %s, started %s", byHand.Digest, byHand.Transport, started.Digest)
	}
}

func TestRanksThatDoNotMeet(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(1000, 1))
	token, other := write(t, dir, "token", strings.Repeat("a", 32)), write(t, dir, "other", strings.Repeat("b", 32))
	short := write(t, dir, "short", "abc")
	addr := freeAddr(t)
	args := func(token string, more ...string) []string {
		return append([]string{"train", "--data", data, "--world-size", "2", "--coordinator", addr, "--token-file", token}, more...)
	}
	ctx, over := context.WithTimeout(t.Context(), 5*time.Minute)
	defer over()
	waiting := command(ctx, args(token, "--rank", "0", "--join-timeout", "5m")...)
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	stranger := psrt(t, args(other, "--rank", "1", "--join-timeout", "4m")...) // as long as rank 0 takes to listen
	over()
	_ = waiting.Wait() // killed
	first := psrt(t, args(token, "--rank", "0", "--join-timeout", "10s")...)
	for _, c := range []struct {
		name string
		got  outcome
		code int
		want string
	}{
		{"a rank alone", first, 1, "rank 1 (worker 0)"},
		{"another token", stranger, 2, "the same --token-file"},
		{"no coordinator", psrt(t, args(token, "--rank", "1", "--join-timeout", "200ms")...), 1, addr},
		{"short token", psrt(t, args(short, "--rank", "1")...), 2, "at least 16"},
		{"no token", psrt(t, "train", "--data", data, "--rank", "0", "--world-size", "2", "--coordinator", addr), 2, "--token-file"},
		{"rank beyond the world", psrt(t, args(token, "--rank", "2")...), 2, "--world-size"},
		{"negative rank", psrt(t, args(token, "--rank", "-1")...), 2, "--rank -1"},
		{"no rank", psrt(t, args(token)...), 2, "--world-size is for ranks started by hand: give --rank"},
		{"token file without rank", psrt(t, "train", "--data", data, "--token-file", token), 2, "--token-file is for"},
		{"coordinator without rank", psrt(t, "train", "--data", data, "--coordinator", addr), 2, "--coordinator is for"},
		{"missing token file", psrt(t, args(filepath.Join(dir, "nope"), "--rank", "0")...), 2, "nope"},
	} {
		if c.got.code != c.code || !strings.Contains(c.got.stderr, c.want) {
			t.Errorf("%s: exit %d, want %d and %q in: %s", c.name, c.got.code, c.code, c.want, c.got.stderr)
		}
	}
}
