package fan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseSNMP(t *testing.T) {
	const text = "Ip: Forwarding RetransSegs\nIp: 1 5\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 42 0\n"
	for _, c := range []struct {
		section, name string
		want          int64
	}{{"Tcp:", "RetransSegs", 42}, {"Ip:", "RetransSegs", 5}, {"Tcp:", "Absent", -1}, {"Udp:", "InErrs", -1}} {
		if got := parseSNMP([]byte(text), c.section, c.name); got != c.want {
			t.Errorf("%s %s is %d, want %d", c.section, c.name, got, c.want)
		}
	}
	if got := parseSNMP([]byte("Tcp: A B\nTcp: 1\n"), "Tcp:", "B"); got != -1 {
		t.Errorf("a short line gives %d, want -1", got)
	}
	if got := tcpRetransmitted("/proc"); got < 0 {
		t.Errorf("this machine's retransmissions are %d", got)
	}
}

func TestHardware(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{
		"rxe0/ports/1/hw_counters/send_rnr_err": "3\n", "rxe1/ports/1/hw_counters/send_rnr_err": "4\n",
		"rxe1/ports/1/hw_counters/completer_retry_err": "x\n",
	} {
		path := filepath.Join(sys, "class/infiniband", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		devices string
		names   []string
		want    int64
	}{{"rxe0 rxe1", rnrNames, 7}, {"rxe0 rxe0", rnrNames, 3}, {"rxe0 rxe1", resentNames, -1}, {"rxe9 rxe8", rnrNames, -1}} {
		if got := hardware(sys, strings.Fields(c.devices), c.names); got != c.want {
			t.Errorf("%v of %s: %d, want %d", c.names, c.devices, got, c.want)
		}
	}
}

func TestCountsMinus(t *testing.T) {
	got := Counts{RNR: 5, Retransmitted: -1, Dropped: 7}.minus(Counts{RNR: 2, Retransmitted: 3, Dropped: -1})
	if want := (Counts{RNR: 3, Retransmitted: -1, Dropped: -1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseDropped(t *testing.T) {
	got, err := parseDropped([]byte(`[{"kind":"noqueue","drops":3},{"kind":"tbf","drops":17}]`))
	if err != nil || got != 17 {
		t.Errorf("%d, %v, want 17", got, err)
	}
	for _, text := range []string{`[]`, `[{"kind":"pfifo","drops":1}]`, `none`} {
		if _, err := parseDropped([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
