package serve

import (
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/hbm/pick"
	"psrt/tiers/policy"
)

const deviceTables = "tables:\n  - {name: a, dim: 8, rule: adagrad}\n  - {name: b, dim: 3, rule: sum}\n  - {name: days, dim: 4, rule: sgd, lifecycle: {}}\n"

// TestDevice: rows of trainers on a device, with room for a part of them, are those of a
// server without one: what is pulled, and the digest. A model that was saved goes on with
// and without it.
func TestDevice(t *testing.T) {
	for _, kind := range deviceKinds(t) {
		for _, name := range []string{policy.NameS3FIFO, policy.NameBelady} {
			r, dir := seedtest.Rand(t), t.TempDir()
			plain := start(t, Config{Tables: tables(t, deviceTables), Staleness: asp})
			near := start(t, Config{Tables: tables(t, deviceTables), Staleness: asp, Save: dir, Device: &pick.Device{Kind: kind, Bytes: 1 << 20, Policy: name}})
			both := []*trainer{plain.join(t), near.join(t)}
			keys := make([]uint64, 6000) // 1 MiB has room for some 1100 rows of a table and lane
			for i := range keys {
				keys[i] = r.Uint64N(1 << 40)
			}
			for range 60 {
				table := []string{"a", "b", "days"}[r.IntN(3)]
				from := r.IntN(len(keys) - 300)
				grads := make([]float32, 300)
				for i := range grads {
					grads[i] = r.Float32()
				}
				a, b := both[0].pushPull(table, keys[from:from+300], grads), both[1].pushPull(table, keys[from:from+300], grads)
				if !slices.Equal(a, b) {
					t.Fatalf("%s, %s: rows of table %s are others on the device", kind, name, table)
				}
			}
			want := plain.digest(t)
			if got := near.digest(t); got != want {
				t.Errorf("%s, %s: digest %s, want %s", kind, name, got, want)
			}
			st, err := near.server.Stats()
			if err != nil {
				t.Fatal(err)
			}
			var bytes int64
			for i := range st.Tables {
				s := st.Tables[i].Tiers
				if s == nil || s.DeviceHits+s.DeviceMisses == 0 || s.DevicePutBack == 0 {
					t.Errorf("%s, %s: table %s: %+v", kind, name, st.Tables[i].Name, s)
					continue
				}
				bytes += s.DeviceBytes
			}
			if bytes == 0 || bytes > 1<<20 {
				t.Errorf("%s, %s: %d bytes of the device, of %d", kind, name, bytes, 1<<20)
			}
			for _, tr := range both {
				tr.leave()
			}
			if err := near.stop(); err != nil {
				t.Fatal(err)
			}
			again := start(t, Config{Tables: tables(t, deviceTables), Staleness: asp, Load: dir, Lanes: 3, Device: &pick.Device{Kind: kind, Bytes: 2 << 20, Policy: name}})
			if got := again.digest(t); got != want {
				t.Errorf("%s, %s: digest %s after a restart, want %s", kind, name, got, want)
			}
		}
	}
}

// TestDeviceNotThere: a server whose device there is not says so and keeps rows in memory;
// what cannot be is refused.
func TestDeviceNotThere(t *testing.T) {
	said := make(chan string, 64)
	s := start(t, Config{Tables: tables(t, sums), Staleness: asp, Device: &pick.Device{Kind: "so:/nowhere/mine.so", Bytes: 1 << 20}, Log: func(line string) { said <- line }})
	if line := <-said; !strings.Contains(line, "server 0 keeps all rows in the tiers below") {
		t.Errorf("it says %q", line)
	}
	tr := s.join(t)
	tr.push("sum", false, []uint64{7}, 3)
	if got := tr.pull("sum", 7); got[0] != 3 {
		t.Errorf("the sum is %v", got)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Tables: tables(t, sums), Device: &pick.Device{Kind: "tpu", Bytes: 1}}, "--hbm-device: device \"tpu\""},
		{Config{Tables: tables(t, sums), Device: &pick.Device{Kind: "host,host,host", Bytes: 1}}, "give --threads 3"},
		{Config{NewTables: true, Device: &pick.Device{Kind: pick.Host, Bytes: 1 << 20}}, "leave --new-tables out"},
		{Config{Tables: tables(t, sums), Device: &pick.Device{Kind: pick.Host, Bytes: 1 << 20, Policy: "fifo"}}, `"fifo"`},
	} {
		c.cfg.Listen, c.cfg.Token, c.cfg.Lanes, c.cfg.Clients, c.cfg.Node = "127.0.0.1:0", testToken, 2, 1, -1
		_, err := New(c.cfg)
		says(t, err, c.want)
	}
}
