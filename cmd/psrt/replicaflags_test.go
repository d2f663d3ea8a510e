package main

import (
	"strings"
	"testing"
)

func TestBadReplicas(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(200, 1))
	for _, c := range []struct{ args, says string }{
		{"--replicas 0", "must be at least 1"},
		{"--replicas 2", "give --servers 2 or more"},
		{"--servers 3 --replicas 2", "add --allow-same-host"},
		{"--servers 2 --allow-same-host", "no effect without --replicas 2"},
		{"--servers 9 --replicas 9 --allow-same-host", "want 1 to 8"},
		{"--groups 0", "must be at least 1"},
		{"--groups 4 --read any", "no effect without --replicas 2"},
		{"--read tail", "must be one of head, any"},
		{"--groups 5000", "want 1 to 4096"},
	} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(c.args)...)...); o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, o.code, c.says, o.stderr)
		}
	}
}
