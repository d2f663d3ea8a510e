package verbs_test

import (
	"testing"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
	"psrt/rdma/feature"
	"psrt/rdma/rdmatest"
	"psrt/rdma/verbs"
)

// devices are the first two of this machine, or twice the only one. Without
// any the test is skipped, in the lab it fails.
func devices(t testing.TB) [2]string {
	t.Helper()
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	names, err := ibv.Devices()
	if err != nil || len(names) == 0 {
		t.Fatalf("the kernel has a device, libibverbs lists %v: %v", names, err)
	}
	return [2]string{names[0], names[min(1, len(names)-1)]}
}

func open(t testing.TB, device string) *verbs.Domain {
	t.Helper()
	d, err := verbs.New(verbs.Config{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	names := devices(t)
	rdmatest.Run(t, rdmatest.Factory{
		New: func(t testing.TB) (a, b rdma.Domain) { return open(t, names[0]), open(t, names[1]) },
		Kill: func(t testing.TB, d rdma.Domain) {
			if err := d.(*verbs.Domain).Vanish(); err != nil {
				t.Fatal(err)
			}
		},
	})
}
