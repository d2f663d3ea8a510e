package probe

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes files under a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDevices(t *testing.T) {
	root := tree(t, map[string]string{
		"mlx5_0/ports/1/counters/port_rcv_data":           "1000\n",
		"mlx5_0/ports/1/counters/port_rcv_packets":        "20\n",
		"mlx5_0/ports/1/hw_counters/out_of_sequence":      "3\n",
		"mlx5_0/ports/1/hw_counters/lifespan":             "10\n",
		"mlx5_0/ports/1/counters/port_xmit_wait":          "N/A (no PMA)\n",
		"mlx5_0/ports/2/counters/port_rcv_data":           "18446744073709551615\n",
		"rxe0/ports/1/hw_counters/rcvd_pkts":              "7\n",
		"rxe0/parent":                                     "eth7\n",
		"odd/ports/1/state":                               "4: ACTIVE\n",
		"mlx5_0/ports/1/hw_counters/not_a_counter/inside": "1\n",
	})
	d, err := openDevices(root, DevicesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var r Reading
	if err := Together(d, Counters(func(r *Reading) { r.Lost = 2 })).Read(&r); err != nil || r.Lost != 2 {
		t.Fatal(r, err)
	}
	want := []Sample{
		{Source{Interface: "mlx5_0/1"}, Count{Bytes: 4000, Messages: 20}},
		{Source{Interface: "mlx5_0/2"}, Count{Bytes: 18446744073709551612}},
		{Source{Interface: "rxe0/1"}, Count{Messages: 7}},
	}
	if !slices.Equal(r.Samples, want) {
		t.Errorf("read %+v, want %+v", r.Samples, want)
	}
	values := map[string]uint64{"counters/port_rcv_data": 1000, "counters/port_rcv_packets": 20, "hw_counters/out_of_sequence": 3}
	if p := d.Ports()[0]; !maps.Equal(p.Values, values) {
		t.Errorf("counters %v, want %v", p.Values, values)
	}
	if _, err := openDevices(root, DevicesConfig{Devices: []string{"mlx5_9"}}); err == nil || !strings.Contains(err.Error(), "mlx5_0, odd, rxe0") {
		t.Errorf("a device that is not there: %v", err)
	}
	if _, err := openDevices(t.TempDir(), DevicesConfig{}); !errors.Is(err, ErrMissing) {
		t.Errorf("no device: %v", err)
	}
	if name, err := parent(root, "rxe0"); name != "eth7" || err != nil {
		t.Errorf("under rxe0 is %q, %v", name, err)
	}
	for _, none := range []string{"mlx5_0", "../" + filepath.Base(root) + "/rxe0", ".."} {
		if name, err := parent(root, none); err == nil {
			t.Errorf("under %s is %q", none, name)
		}
	}
}

// TestDeviceCounts: what the lab's devices count while data pass from one to
// the other.
func TestDeviceCounts(t *testing.T) {
	requireRoCE(t)
	d, err := OpenDevices(DevicesConfig{Devices: []string{"rxe1"}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after Reading
	if err := d.Read(&before); err != nil || len(before.Samples) != 1 {
		t.Fatal(before, err)
	}
	jobs := labJobs()[:1]
	move(t, newSide(t, "rxe1"), newSide(t, "rxe0"), jobs, func() {})
	if err := d.Read(&after); err != nil {
		t.Fatal(err)
	}
	// 8001 bytes are two packets of 4096; connecting and answers come besides.
	got, want := after.Samples[0].Messages-before.Samples[0].Messages, uint64(2*jobs[0].count)
	if got < want || got > 2*want {
		t.Errorf("rxe1 has received %d packets, want %d and a few", got, want)
	}
}
