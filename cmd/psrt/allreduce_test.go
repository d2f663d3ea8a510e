package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"psrt/sched/train"
)

// Workers on two hosts add inside these first, and the model is that of --dense ps.
func TestAllReduceOnHosts(t *testing.T) {
	dir := t.TempDir()
	job := []string{"--data", write(t, dir, "train.libffm", rows(2000, 1)), "--servers", "1", "--workers", "4", "--sync", "bsp", "--model", "deepfm", "--hidden", "256,128", "--json"}
	own := psrt(t, append([]string{"train"}, job...)...)
	var want, got train.Result
	if err := json.Unmarshal([]byte(own.stdout), &want); err != nil {
		t.Fatalf("%v: %s", err, own.stderr)
	}
	var ranks [][]string
	for r := range 5 {
		ranks = append(ranks, append(job[:len(job):len(job)], "--dense", "allreduce", "--host-label", fmt.Sprintf("h%d", (r+1)/2)))
	}
	for r := range ranks {
		if r != 1 { // worker 0 has the result
			ranks[r] = append(ranks[r], "--json=false")
		}
	}
	out := together(t, dir, ranks...)
	if err := json.Unmarshal([]byte(out[1].stdout), &got); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	if got.Digest != want.Digest || want.Digest == "" || want.DenseSums != nil {
		t.Errorf("digest %s, with --dense ps %s", got.Digest, want.Digest)
	}
	if s := got.DenseSums; s == nil || !reflect.DeepEqual(s.Hosts, [][]int{{0, 1}, {2, 3}}) || s.Groups != 1 {
		t.Errorf("the workers added %+v, want them on two hosts", s)
	}
}
