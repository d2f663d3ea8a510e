package job

import (
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
	"psrt/tiers/hbm/pick"
	"psrt/tiers/policy"
)

// TestSmallDeviceOfJob: a budget of a few batches' rows holds rows and what the device
// takes to work with.
func TestSmallDeviceOfJob(t *testing.T) {
	base := *sampleJob(t, "fm")
	base.Dataset, base.Batch = "queue", 50 // at most 118 rows
	want := run(t, base, "shm")
	for _, kind := range deviceKinds(t) {
		for _, bytes := range []int64{36 << 10, 64 << 10} {
			j := base
			j.Device = &pick.Device{Kind: kind, Bytes: bytes}
			res := run(t, j, "shm")
			if s := res.ServerUse[0].Tables[0].Tiers; s == nil || s.DeviceHits+s.DeviceMisses == 0 || s.DeviceBytes > bytes {
				t.Errorf("%s, %d bytes: %+v", kind, bytes, s)
			}
			if res.Digest != want.Digest {
				t.Errorf("%s, %d bytes: digest %s, want %s", kind, bytes, res.Digest, want.Digest)
			}
		}
	}
}

// TestLanesOnDevice: lanes use the devices of one library at once.
func TestLanesOnDevice(t *testing.T) {
	base := *sampleJob(t, "fm")
	base.Dataset, base.Lanes, base.Batch = "queue", 2, 100
	want := run(t, base, "shm")
	for _, kind := range deviceKinds(t) {
		j := base
		j.Device = &pick.Device{Kind: kind, Bytes: 1 << 20}
		res := run(t, j, "shm")
		if s := res.ServerUse[0].Tables[0].Tiers; s == nil || s.DeviceHits+s.DeviceMisses == 0 {
			t.Errorf("%s: %+v", kind, s)
		}
		if res.Digest != want.Digest {
			t.Errorf("%s: digest %s, want %s", kind, res.Digest, want.Digest)
		}
	}
}

// TestSameDigestOnDevice: rows of coming batches on a device, over memory and over
// memory and disks, end as rows all in memory do.
func TestSameDigestOnDevice(t *testing.T) {
	base := *sampleJob(t, "fm")
	base.Data = []string{wideFile(t, "wide.libffm", 8_000, 1<<40)}
	base.Model.Fields, base.Model.Dim = 3, 64
	base.Batch, base.Epochs, base.Dataset = 50, 2, "queue"
	want := run(t, base, "shm")
	kinds := deviceKinds(t)
	for i, name := range []string{policy.NameBelady, policy.NameS3FIFO} {
		for n, onDisks := range []bool{false, true} {
			title := name + " over memory"
			if onDisks {
				title = name + " over disks"
			}
			kind := kinds[(i+n)%len(kinds)]
			title += ", " + kind
			t.Run(title, func(t *testing.T) {
				j := base
				j.Servers, j.Workers, j.Lanes = 1, 1+i%2, 1
				j.LookAhead = train.LookAhead
				j.Device = &pick.Device{Kind: kind, Bytes: 1 << 20, Policy: name}
				if onDisks {
					j.MaxBytes = want.ServerUse[0].TableBytes / 2
					j.Storage = &train.Storage{Dirs: []string{t.TempDir()}, Policy: name}
					j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 60, Deltas: 2}
				}
				res := run(t, j, "shm")
				if c := res.Checkpoints; c != nil && (c.Written == 0 || c.Failed > 0) {
					t.Errorf("checkpoints: %+v", *c)
				}
				if res.Digest != want.Digest || *res.AUC != *want.AUC || res.Features != want.Features {
					t.Errorf("%d rows, digest %s, AUC %v; in memory %d, %s, %v", res.Features, res.Digest, *res.AUC, want.Features, want.Digest, *want.AUC)
				}
				s := res.ServerUse[0].Tables[0].Tiers
				if s == nil || s.DeviceBytes > 1<<20 || s.DeviceEvicted == 0 || s.DevicePutBack == 0 || s.DeviceHits == 0 {
					t.Fatalf("nothing was on the device, or too much: %+v", s)
				}
				if name == policy.NameBelady && s.DeviceAhead == 0 {
					t.Errorf("nothing was copied ahead: %+v", s)
				}
				t.Logf("%+v", *s)
			})
		}
	}
}

// deviceSpread is a list of devices, and how many names they have.
type deviceSpread struct {
	kinds   string
	devices int
}

// anyDevices: their speed says how many have rows.
const anyDevices = 0

// TestSpreadOverDevices: lanes' rows on devices of their own, four of a kind or of several kinds, are those of
// memory, and every one of like devices has some.
func TestSpreadOverDevices(t *testing.T) { trySpreads(t, deviceSpreads(t)) }

func trySpreads(t *testing.T, spreads []deviceSpread) {
	t.Helper()
	base := *sampleJob(t, "fm")
	base.Dataset, base.Lanes, base.Batch, base.Epochs = "queue", 4, 200, 1
	want := run(t, base, "shm").Digest
	for _, spread := range spreads {
		j := base
		j.Device = &pick.Device{Kind: spread.kinds, Bytes: 1 << 20}
		res := run(t, j, "shm")
		s := res.ServerUse[0].Tables[0].Tiers
		if s == nil || s.DeviceHits+s.DeviceMisses == 0 || s.DeviceBytes > 1<<20 || spread.devices != anyDevices && strings.Count(s.Device, " and ") != spread.devices-1 {
			t.Errorf("%s: %+v, want rows on %d devices", spread.kinds, s, spread.devices)
		}
		if res.Digest != want {
			t.Errorf("%s: digest %s, want %s", spread.kinds, res.Digest, want)
		}
	}
}
