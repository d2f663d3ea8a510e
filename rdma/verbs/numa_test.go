package verbs_test

import (
	"fmt"
	"os"
	"testing"

	"psrt/rdma"
	"psrt/rdma/feature"
	"psrt/rdma/mem"
	"psrt/rdma/verbs"
)

// TestPlacement: every page of a registered arena is on the node that was
// asked for, also after a peer has written to it. With one node only it still
// shows that registration fetched every page.
func TestPlacement(t *testing.T) {
	names := devices(t)
	nodes, err := feature.Root("").Nodes()
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) < 2 && os.Getenv("PSRT_LAB_NUMA") == "1" {
		t.Fatalf("the lab promised two NUMA nodes, there are %v", nodes)
	}
	a, b := newHost(t, verbs.Config{Device: names[0]}), newHost(t, verbs.Config{Device: names[1]})
	x, _ := pair(t, a, b, 0)
	for _, node := range nodes {
		for _, cfg := range []mem.Config{
			{Huge: "never"},
			{Huge: "never", Share: true},
			{Huge: "auto"},
			{Huge: "never", Lock: true, Prefault: true},
		} {
			cfg.Size, cfg.Node, cfg.Purpose = 8<<20, node, "placement"
			t.Run(fmt.Sprintf("node %d, huge %s, shared %v, locked %v", node, cfg.Huge, cfg.Share, cfg.Lock), func(t *testing.T) {
				arena, err := mem.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer arena.Close()
				r, err := b.dom.Register(arena, rdma.AccessAll, "placement")
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				placed(t, arena.Bytes(), node)
				src := a.buf[:1<<20]
				for off := uint64(0); off < uint64(cfg.Size); off += 1 << 20 {
					x.post(rdma.WR{ID: off, Op: rdma.OpWrite, Signaled: true, Local: src, Remote: r.Remote().Slice(off, 1<<20)})
					x.want(off, rdma.OpWrite, rdma.StatusOK)
				}
				placed(t, arena.Bytes(), node)
			})
		}
	}
	t.Logf("%d nodes", len(nodes))
}

func placed(t testing.TB, b []byte, node int) {
	t.Helper()
	on, err := nodesOf(b)
	if err != nil {
		t.Fatalf("move_pages: %v", err)
	}
	for i, n := range on {
		if int(n) != node {
			t.Fatalf("page %d of %d is on node %d, want %d", i, len(on), n, node)
		}
	}
}
