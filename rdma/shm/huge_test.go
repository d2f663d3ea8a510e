package shm

import (
	"testing"

	"psrt/rdma"
	"psrt/rdma/feature"
	"psrt/rdma/mem"
)

// TestHugePageRegion maps a region that begins inside a huge page file.
func TestHugePageRegion(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.HugePages))
	a, b := newPair(t, 0)
	huge, err := mem.New(mem.Config{Size: 3 << 20, Node: -1, Purpose: "huge", Share: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.d.Close()
		huge.Close()
	})
	t.Log(huge.Info())
	r, err := b.d.Register(huge, rdma.AccessAll, "huge")
	if err != nil {
		t.Fatal(err)
	}
	a.b[0] = 9
	a.post(rdma.WR{ID: 1, Op: rdma.OpWrite, Signaled: true, Local: a.b[:1], Remote: r.Remote().Slice(2<<20+5, 1)})
	a.want(1, rdma.OpWrite, rdma.StatusOK)
	if huge.Bytes()[2<<20+5] != 9 {
		t.Error("the write went elsewhere")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := a.d.Close(); err != nil {
		t.Error(err)
	}
}
