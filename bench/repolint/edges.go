package repolint

import (
	"fmt"
	"slices"
	"strings"
)

// edge forbids imports that the floors alone would allow. Paths are folders;
// each stands for itself and all below it. Tests may cross an edge (they join
// what production keeps apart), never a floor.
type edge struct {
	from    []string
	to      []string
	except  []string // importers, or exact packages imported, that may
	instead string
}

// transports are the implementations of rdma's interface.
var transports = []string{"rdma/verbs", "rdma/shm", "rdma/tcp", "rdma/quic", "rdma/sim"}

// testBench says whether a package serves only tests and other test benches,
// as its name says: rdma/rdmatest, sched/coord/coordtest.
func testBench(p string) bool { return strings.HasSuffix(p, "test") }

// edges is the one table of them.
var edges = []edge{
	{
		from:    []string{"rdma", "nccl", "tiers", "sched"},
		to:      transports,
		except:  []string{"rdma/dial", "sched/schedtest", "rdma/rdmatest", "rdma/verbs", "rdma/shm", "rdma/tcp", "rdma/quic", "rdma/sim"},
		instead: "take an rdma.Domain from the caller, or a connection from rdma/dial, the one package that knows every transport",
	},
	{
		from:    []string{"tiers"},
		to:      []string{"rdma/dial", "rdma/secure", "rdma/wire", "rdma/fault"},
		instead: "hold state only: the server in sched moves the bytes",
	},
	{
		from:    []string{"sched/server"},
		to:      []string{"sched/client", "sched/train", "sched/dataset", "sched/job", "sched/launch"},
		instead: "put what both sides need into sched/psmsg, or a pure package beside it",
	},
	{
		from:    []string{"sched/client"},
		to:      []string{"tiers", "sched/server", "sched/train", "sched/dataset"},
		except:  []string{"tiers/table"},
		instead: "ask the server: the client knows tables by their Spec (tiers/table) and nothing of storage",
	},
	{
		from:    []string{"rdma", "nccl", "tiers", "sched", "cmd/libpsrt"},
		to:      []string{"sched/coord/etcd", "sched/job"},
		except:  []string{"sched/job"},
		instead: "take a coord.Coordinator: etcd is 20 MB that no library of ours may carry",
	},
	{
		from:    []string{"sched/dataset"},
		to:      []string{"rdma", "nccl", "tiers", "sched/client", "sched/server", "sched/train", "sched/job"},
		instead: "hand out batches: readers know files only",
	},
	{
		from:    []string{"sched/train/model"},
		to:      []string{"rdma", "sched/client", "sched/server", "sched/job", "sched/launch"},
		instead: "compute on a Leaf: the trainer above fetches and sends",
	},
	{
		from:    []string{"sched/place", "sched/clock", "sched/chain", "sched/member", "sched/fanin", "sched/tree", "sched/ledger"},
		to:      []string{"rdma", "nccl", "tiers", "csrc", "sched/client", "sched/server", "sched/train"},
		except:  []string{"tiers/table"},
		instead: "return what is to be done and let the shell (sched/server, sched/client) do it",
	},
}

func checkEdges(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		if f.Test() {
			continue
		}
		for _, im := range t.Imports(f) {
			if im.Ours == "" || im.Ours == f.Dir() {
				continue
			}
			for _, e := range edges {
				if e.forbids(f.Dir(), im.Ours) {
					found = append(found, Finding{f.Path, im.Line, fmt.Sprintf("%s must not import %s; instead %s", f.Dir(), im.Path, e.instead)})
				}
			}
			if testBench(im.Ours) && !testBench(f.Dir()) && top(f.Dir()) != "bench" {
				found = append(found, Finding{f.Path, im.Line, fmt.Sprintf(
					"%s must not import the test bench %s; instead move what production needs out of it", f.Dir(), im.Path)})
			}
			if a, b := transport(f.Dir()), transport(im.Ours); a != "" && b != "" && a != b {
				found = append(found, Finding{f.Path, im.Line, fmt.Sprintf(
					"transport %s imports its sibling %s; instead move what both need down to rdma, rdma/mem or rdma/wire", a, b)})
			}
		}
	}
	return found
}

func (e edge) forbids(from, to string) bool {
	return within(from, e.from) && within(to, e.to) && !within(from, e.except) && !within(to, only(e.except, e.to))
}

// only keeps the exceptions that lie inside the forbidden folders: those name
// packages that may be imported, the others importers.
func only(except, to []string) []string {
	var kept []string
	for _, p := range except {
		if within(p, to) && !slices.Contains(to, p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func within(p string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return p == folder || strings.HasPrefix(p, folder+"/")
	})
}

// transport is the transport that a package belongs to, or empty.
func transport(p string) string {
	for _, t := range transports {
		if within(p, []string{t}) {
			return t
		}
	}
	return ""
}
