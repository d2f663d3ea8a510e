package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"psrt/sched/job"
	"psrt/sched/place"
	"psrt/sched/replica"
)

// Servers say their rack and their weight, those that come later too: replicas are in
// different racks, and of a rack's servers the heavier one has more groups.
func TestRacksAndWeights(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	const secret = "secretsecretsecretsecretsecretsecret"
	at, token := freeAddr(t), write(t, t.TempDir(), "token", secret)
	var said []*watched
	start := func(args ...string) {
		t.Helper()
		c, w := command(ctx, args...), &watched{want: "-", seen: make(chan struct{})}
		c.Stderr = w
		must(t, c.Start())
		said = append(said, w)
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	text := func() string {
		var b strings.Builder
		for i, w := range said {
			fmt.Fprintf(&b, "--- %d\n%s", i, w.text())
		}
		return b.String()
	}
	servers := []struct {
		rack   string
		weight float64
	}{{"a", 3}, {"a", 1}, {"b", 3}, {"b", 1}, {"c", 0.5}}
	labels := func(s int) []string {
		return []string{"--rack", servers[s].rack, "--weight", fmt.Sprint(servers[s].weight), "--host-label", fmt.Sprintf("h%d", s)}
	}
	flags := append(endless(t)[1:], "--servers", "4", "--workers", "1", "--replicas", "2", "--groups", "8", "--threads", "1", "--stall-after", "0", "--world-size", "5", "--coordinator", at, "--token-file", token)
	for rank := range 5 {
		own := []string{"--rank", fmt.Sprint(rank)}
		if rank < 4 {
			own = append(own, labels(rank)...)
		}
		start(append(flags[:len(flags):len(flags)], own...)...)
	}
	var unasked error
	defer func() {
		if t.Failed() {
			t.Logf("%v: %s", unasked, text())
		}
	}()
	apart := func(servers int) (ok bool) {
		k, err := job.Attach(ctx, at, []byte(secret), job.StoreConfig{}) // anew: its keepers take it over from rank 0
		if unasked = err; err != nil {
			return false // they are starting
		}
		defer k.Close()
		kv, err := k.Coord.Get(ctx, replica.KeyMap)
		if unasked = err; err != nil {
			return false
		}
		m, err := place.Decode(kv.Value, uint64(kv.Revision))
		must(t, err)
		racks := map[int]string{}
		for _, s := range m.Servers {
			racks[s.ID] = s.Rack
		}
		for _, group := range m.Groups {
			if len(group.Chain) != 2 || group.Joiner != nil {
				return false
			}
			if a, b := racks[group.Chain[0].Server], racks[group.Chain[1].Server]; a == "" || a == b {
				t.Fatalf("two replicas in racks %q and %q: %s", a, b, text())
			}
		}
		return len(m.Servers) == servers
	}
	eventually(t, "all groups have both replicas", func() bool { return apart(4) })
	var v job.View
	shown := func() bool {
		o := psrt(t, "server", "ls", "--json", "--coordinator", at, "--token-file", token)
		v = job.View{}
		return o.code == 0 && json.Unmarshal([]byte(o.stdout), &v) == nil
	}
	eventually(t, "the servers are listed", shown)
	for i, s := range v.Servers {
		if s.Rack != servers[i].rack || s.Weight != servers[i].weight || s.Host != fmt.Sprintf("h%d", i) {
			t.Errorf("server %d is shown as %+v", i, s)
		}
	}
	if of := v.Servers; of[0].Groups <= of[1].Groups || of[2].Groups <= of[3].Groups {
		t.Errorf("the groups are not dealt by weight: %+v", of)
	}
	start(append([]string{"server", "add", "--coordinator", at, "--token-file", token}, labels(4)...)...)
	eventually(t, "the fifth has groups", func() bool {
		s := (*job.ServerInfo)(nil)
		if shown() {
			s = v.Find(4)
		}
		return s != nil && s.Groups > 0 && v.Whole() && apart(5)
	})
	if s := v.Find(4); s.Rack != "c" || s.Weight != 0.5 {
		t.Errorf("the added server is shown as %+v: %s", s, text())
	}
}

// A weight that would do nothing is refused.
func TestWeightRefused(t *testing.T) {
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(100, 1)), write(t, dir, "token", strings.Repeat("secret", 8))
	for says, args := range map[string]string{
		"--weight is for ranks started by hand": "train --data " + data + " --groups 4 --weight 2",
		"--weight NaN: want":                    "server add --coordinator 127.0.0.1:1 --weight NaN --token-file " + token,
		"--weight 1e+07: want":                  "server add --coordinator 127.0.0.1:1 --weight 1e7 --token-file " + token,
		"--weight 0: want":                      "train --data " + data + " --rank 1 --world-size 2 --weight 0 --coordinator 127.0.0.1:1 --token-file " + token,
		"give rank 0 --groups":                  "train --data " + data + " --servers 1 --workers 1 --rank 0 --world-size 1 --colocate --weight 2 --coordinator " + freeAddr(t) + " --token-file " + token,
	} {
		if r := psrt(t, strings.Fields(args)...); r.code != 2 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit code %d, %q", args, r.code, r.stderr)
		}
	}
}
