package train

import (
	"strings"
	"testing"
)

// TestDeviceKinds: what no server has is refused; an accelerator whose library is not there
// is said to be so, and its server does without.
func TestDeviceKinds(t *testing.T) {
	for kind, good := range map[string]bool{DeviceGPU: true, DeviceHost: true, "so:./mine.so": true, "so:": false, "tpu": false, "": false} {
		if err := (&Device{Kind: kind, Bytes: 1}).Validate(); (err == nil) != good {
			t.Errorf("%q: %v", kind, err)
		}
	}
	var said []string
	rank := Rank{Index: 3, Events: func(e Event) { said = append(said, e.Note) }}
	d, release := (&Device{Kind: "so:/nowhere/mine.so", Bytes: 1 << 20}).forServer(&Job{}, rank)
	defer release()
	if all := strings.Join(said, "\n"); d != nil || !strings.Contains(all, "server 3 keeps all rows in the tiers below") {
		t.Errorf("it has %+v and says %q", d, all)
	}
}
