package main

import (
	"fmt"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// TestSpreadOverCards: a server's rows spread over four cards, fake ones, each with some, end as those of one
// card; more cards than lanes are refused.
func TestSpreadOverCards(t *testing.T) {
	args := strings.Fields("train --data " + supportData(t) + "/rows.libffm --format libffm --model fm --batch 200 --threads 1 --seed 7 --servers 1 --workers 1 --sync bsp --quiet --json --hbm-budget 4MiB --hbm-device")
	t.Setenv(cuda.Variable, cudatest.Build(t))
	t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
	t.Setenv("PSRT_FAKE_CUDA_LIKE", "1") // so each has a lane, however fast it is
	digest := ""
	for _, cards := range []string{"2", "0,1,2,3"} {
		o := psrt(t, append(args, cards)...)
		if o.code != 0 {
			t.Fatal(o.stderr)
		}
		res := resultOf(t, o.stdout)
		s := res.ServerUse[0].Tables[0].Tiers
		for number := range strings.SplitSeq(cards, ",") {
			if s == nil || !strings.Contains(s.Device, fmt.Sprintf("GPU %s, fake device", number)) || s.DeviceHits == 0 {
				t.Errorf("on cards %s: no rows on %s, it says %+v", cards, number, s)
			}
		}
		if digest != "" && res.Digest != digest {
			t.Errorf("on cards %s: digest %s, on one %s", cards, res.Digest, digest)
		}
		digest = res.Digest
	}
	if o := psrt(t, append(args, "0,1,2,3", "--lanes", "2")...); o.code != 2 || !strings.Contains(o.stderr, "give --lanes 4") {
		t.Errorf("four cards for two lanes: %d, %s", o.code, o.stderr)
	}
}
