package mem

import (
	"fmt"

	"psrt/rdma/feature"
)

// candidate is one way to back an arena, with why it was chosen over the
// better ones.
type candidate struct {
	kind PageKind
	why  string
}

// plan lists what to try, best first; the last always is SmallPages. It reads
// the machine and changes nothing.
func plan(cfg *Config, node int) []candidate {
	root := feature.Root(cfg.Root)
	if cfg.Huge == "never" {
		return []candidate{{SmallPages, "huge pages are switched off"}}
	}
	if cfg.Size < feature.HugePageBytes {
		return []candidate{{SmallPages, "smaller than a huge page"}}
	}
	var list []candidate
	why := ""
	need := int64(roundUp(cfg.Size, feature.HugePageBytes) / feature.HugePageBytes)
	switch free, err := root.FreeHugePages(node); {
	case err != nil:
		why = fmt.Sprintf("cannot read the huge page pool: %v", err)
	case free < need:
		why = fmt.Sprintf("needs %d huge pages, %d are free%s; sysctl vm.nr_hugepages=N adds some", need, free, onNode(node))
	default:
		list = append(list, candidate{HugePages, fmt.Sprintf("%d of %d free ones%s", need, free, onNode(node))})
		why = "the kernel refused huge pages that it counted as free"
	}
	anonymous, shared, err := root.THP()
	switch {
	case err != nil:
		why += fmt.Sprintf("; cannot read the transparent huge page policy: %v", err)
	case cfg.Share && (shared == "never" || shared == "deny"):
		why += fmt.Sprintf("; transparent_hugepage/shmem_enabled is %s (advise would give them)", shared)
	case !cfg.Share && anonymous == "never":
		why += "; transparent_hugepage/enabled is never (madvise would give them)"
	default:
		list = append(list, candidate{TransparentPages, why})
	}
	return append(list, candidate{SmallPages, why})
}

func onNode(node int) string {
	if node < 0 {
		return ""
	}
	return fmt.Sprintf(" on node %d", node)
}

// placement decides the node to bind to, -1 for none, and says why. know is
// the node the pages are on in any case, -1 if any.
func placement(cfg *Config) (bind, know int, why string) {
	nodes, err := feature.Root(cfg.Root).Nodes()
	switch {
	case err != nil:
		return -1, -1, fmt.Sprintf("cannot read the NUMA nodes: %v", err)
	case len(nodes) == 1:
		why = fmt.Sprintf("the machine has node %d only", nodes[0])
		if cfg.Node >= 0 && cfg.Node != nodes[0] {
			why = fmt.Sprintf("node %d asked for, but %s", cfg.Node, why)
		}
		return -1, nodes[0], why
	case cfg.Node < 0:
		return -1, -1, "any node asked for"
	}
	for _, n := range nodes {
		if n == cfg.Node {
			return n, n, "bound by mbind"
		}
	}
	return -1, -1, fmt.Sprintf("node %d asked for, but memory is on the nodes %v only", cfg.Node, nodes)
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
