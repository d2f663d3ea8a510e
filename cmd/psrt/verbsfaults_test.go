package main

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"psrt/rdma/feature"
	"psrt/sched/job"
	"psrt/sched/train"
)

// Servers and workers are killed, and a server is stopped, where rows go over RDMA: their
// queue pairs break, or go silent, workers are connected to the next heads and to whom a
// launcher starts again, and in bsp the model is that of a job that nobody disturbed.
func TestDeathsOverVerbs(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	const passes, servers, workers = 12, 3, 2
	flags, g := gated(t, rows(800, 1), passes)
	flags, digest := undisturbed(t, flags...)
	g.let(t, passes-1)
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(flags, "--transport", "verbs", "--servers", strconv.Itoa(servers), "--workers", strconv.Itoa(workers), "--threads", "1",
		"--replicas", "2", "--groups", "4", "--allow-same-host", "--on-worker-loss", "restart")...)
	signal := func(rank int, s syscall.Signal) {
		t.Helper()
		pid := v.rankPid(strconv.Itoa(rank))
		if pid == 0 {
			t.Fatalf("rank %d does not run: %s", rank, v.said.text())
		}
		must(t, syscall.Kill(pid, s))
	}
	epoch := v.epoch(ctx)
	signal(1, syscall.SIGKILL)
	v.whole(ctx, epoch)
	v.said.next("it is started again (1 of 3 times), and goes on where it was")
	signal(servers+1, syscall.SIGKILL)
	v.await(ctx)
	epoch = v.epoch(ctx)
	signal(2, syscall.SIGSTOP)
	v.settles(ctx, func(view *job.View) bool { return view.Epoch > epoch })
	signal(2, syscall.SIGCONT)
	v.whole(ctx, epoch)
	if v.over() {
		t.Fatalf("it has ended before its last pass: %v: %s", v.err, v.said.text())
	}
	g.let(t, passes)
	<-v.ended
	var res train.Result
	if err := json.Unmarshal(v.out.Bytes(), &res); v.err != nil || err != nil {
		t.Fatalf("%v, %v: %s", v.err, err, v.said.text())
	}
	inexact := slices.ContainsFunc(res.Takeovers, func(t train.Takeover) bool { return !t.Exact }) // and it is said
	if res.Digest != digest && !inexact || res.Examples != passes*800 {
		t.Errorf("digest %s, undisturbed %s; %d examples, %d pushes: %s", res.Digest, digest, res.Examples, pushes(&res), v.said.text())
	}
	if !slices.ContainsFunc(res.Transfers, func(s string) bool { return strings.Contains(s, "verbs") }) {
		t.Errorf("it went by %v", res.Transfers)
	}
	t.Log(res.Takeovers, res.Digest == digest)
}
