package pick

import (
	"strings"
	"testing"

	"psrt/tiers/hbm"
)

// TestDeviceKinds: what no server has is refused; an accelerator whose library is not there
// is said to be so, and its server does without.
func TestDeviceKinds(t *testing.T) {
	for kind, good := range map[string]bool{GPU: true, Host: true, "so:./mine.so": true, "so:": false, "tpu": false, "": false} {
		if err := (&Device{Kind: kind, Bytes: 1}).Validate(2, "--lanes"); (err == nil) != good {
			t.Errorf("%q: %v", kind, err)
		}
	}
	for kind, good := range map[string]bool{"host,host": true, "0,1": true, "gpu,gpu": true, "so:a.so,host": true, "3": true,
		"0,0": false, "-1": false, "01": false, "0,": false, "0,tpu": false, "0,1,2": false} { // two lanes for three
		if err := (&Device{Kind: kind, Bytes: 1}).Validate(2, "--lanes"); (err == nil) != good {
			t.Errorf("%q: %v", kind, err)
		}
	}
	var said []string
	s := Server{Index: 3, Node: -1, Say: func(line string) { said = append(said, line) }}
	d, release := (&Device{Kind: "so:/nowhere/mine.so", Bytes: 1 << 20}).Open(s)
	defer release()
	if all := strings.Join(said, "\n"); d != nil || !strings.Contains(all, "server 3 keeps all rows in the tiers below") {
		t.Errorf("it has %+v and says %q", d, all)
	}
}

// TestSomeDevices: of several devices those that there are are used, and it is said what
// is not there.
func TestSomeDevices(t *testing.T) {
	for kind, want := range map[string]string{"host,so:/nowhere/mine.so": hbm.Host{}.Name(), "host,so:/nowhere/mine.so,host": "2 of " + hbm.Host{}.Name()} {
		var said []string
		s := Server{Index: 3, Node: -1, Say: func(line string) { said = append(said, line) }}
		d, release := (&Device{Kind: kind, Bytes: 1 << 20}).Open(s)
		if all := strings.Join(said, "\n"); d == nil || d.Name() != want || !strings.Contains(all, "server 3 does without device \"so:/nowhere/mine.so\"") {
			t.Errorf("%s: it has %+v and says %q", kind, d, all)
		}
		release()
	}
}
