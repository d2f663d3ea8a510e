package main

import (
	"encoding/json"
	"strings"
	"testing"

	"psrt/sched/train"
)

// Hot rows are refused where they would do nothing or break a promise, and counted.
func TestHotRows(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(2000, 1))
	for _, c := range []struct{ args, says string }{
		{"--hot-staleness 3", "no effect without --hot-rows"},
		{"--hot-rows 10 --sync bsp", "every pull of bsp has all steps before it"},
		{"--hot-rows 10 --sync ssp", "--staleness N"},
		{"--hot-rows -1 --sync asp", "--hot-rows -1"},
		{"--hot-rows 10 --hot-staleness 0 --sync asp", "want at least 1"},
	} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(c.args)...)...); o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, o.code, c.says, o.stderr)
		}
	}
	o := psrt(t, "train", "--data", data, "--sync", "asp", "--hot-rows", "100", "--batch", "20", "--epochs", "2", "--quiet", "--json")
	var res train.Result
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || len(res.Ranks) == 0 {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	if h := res.Ranks[len(res.Ranks)-1].Hot; h == nil || h.Kept == 0 || h.Pulled == 0 {
		t.Errorf("%+v", h)
	}
}
