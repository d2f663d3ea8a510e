package pair

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/rdma/feature"
)

// inLab skips where there is no pair to test: outside the lab, and on a machine
// with a real card.
func inLab(t *testing.T) {
	t.Helper()
	if os.Getenv("PSRT_LAB") != "rxe" {
		feature.SkipUnless(t, fmt.Errorf("not in the lab (make test runs it there): %w", feature.ErrNotSupported))
	}
	feature.SkipUnless(t, feature.NewProber("/").Check(feature.RDMADevice))
}

// TestRDMACrosses runs perftest from device to device and demands that both ends
// of the link carried what the devices say they sent.
func TestRDMACrosses(t *testing.T) {
	inLab(t)
	for _, c := range []struct {
		tool    string
		bytes   int
		count   int
		packets int64 // at least, of the client's and the server's together
	}{
		{"ib_write_lat", 8, 200, 400},
		{"ib_write_bw", 64 << 10, 200, 200 * 16}, // MTU 4096
		{"ib_read_bw", 64 << 10, 50, 50 * 16},
	} {
		t.Run(c.tool, func(t *testing.T) {
			before, err := Count()
			if err != nil {
				t.Fatal(err)
			}
			perftest(t, c.tool, "-s", fmt.Sprint(c.bytes), "-n", fmt.Sprint(c.count), "-m", "4096", "-F")
			after, err := Count()
			if err != nil {
				t.Fatal(err)
			}
			sent, carried := after.Device-before.Device, after.Link-before.Link
			t.Logf("the devices sent %d packets, the link carried %d", sent, carried)
			if sent < c.packets || carried < sent {
				t.Errorf("the devices sent %d packets (want at least %d), the link carried %d (want all of them)", sent, c.packets, carried)
			}
		})
	}
}

// perftest runs a server on one device and a client on the other.
func perftest(t *testing.T, tool string, args ...string) {
	t.Helper()
	// It takes seconds; a machine may be ten times slower than a laptop.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var said bytes.Buffer
	server := exec.CommandContext(ctx, tool, append([]string{"-d", DeviceA}, args...)...)
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatalf("%v: install perftest", err)
	}
	var out []byte
	var err error
	for ctx.Err() == nil { // until the server listens
		out, err = exec.CommandContext(ctx, tool, append(append([]string{"-d", DeviceB}, args...), AddressA)...).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("Couldn't connect")) && !bytes.Contains(out, []byte("Connection refused")) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		cancel()
	}
	if serverErr := server.Wait(); err != nil || serverErr != nil {
		t.Fatalf("client: %v, server: %v\n%s\n%s", err, serverErr, out, said.String())
	}
}

// TestDownAndUp takes the pair away and makes it again, and demands that in
// between the machine is as if there had never been one.
func TestDownAndUp(t *testing.T) {
	inLab(t)
	if err := Cross(); err != nil {
		t.Fatal(err)
	}
	const rpFilter = "/proc/sys/net/ipv4/conf/all/rp_filter"
	if err := (&Pair{}).Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	bare := rules(t)
	if want := []string{"0: from all lookup local", "32766: from all lookup main", "32767: from all lookup default"}; !slices.Equal(bare, want) {
		t.Errorf("rules without a pair are %q, want %q", bare, want)
	}
	was, err := os.ReadFile(rpFilter)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rpFilter, []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := Cross(); err != nil {
		t.Error(err)
	}
	if _, err := Up(t.Context()); err == nil || !strings.Contains(err.Error(), "ip link del "+LinkA) {
		t.Errorf("a second pair: %v", err)
	}
	if err := p.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rules(t); !slices.Equal(got, bare) {
		t.Errorf("Down leaves the rules %q, before Up they were %q", got, bare)
	}
	if text, err := os.ReadFile(rpFilter); err != nil || string(text) != "2\n" {
		t.Errorf("Down leaves rp_filter at %q, %v; it was 2", text, err)
	}
	if devices, err := Devices("/sys"); len(devices) != 0 || err != nil {
		t.Errorf("Down leaves %v, %v", devices, err)
	}
	if err := os.WriteFile(rpFilter, was, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context()); err != nil { // for whoever comes next
		t.Fatal(err)
	}
}

func rules(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", "rule").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}
