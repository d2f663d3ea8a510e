package repolint

import (
	"fmt"
	"strings"
)

// floors gives each top folder its height. A package may import its own floor
// and lower ones; nccl and tiers are two wings of equal height and do not know
// each other.
var floors = map[string]int{
	"csrc": 0, "rdma": 1, "nccl": 2, "tiers": 2, "sched": 3, "bench": 4, "cmd": 5,
}

// order is the table in words, for messages.
const order = "csrc <- rdma <- {nccl, tiers} <- sched <- bench <- cmd"

func checkFloors(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		from := top(f.Path)
		height, known := floors[from]
		if !known {
			continue // checkTopLevel speaks of it
		}
		for _, im := range t.Imports(f) {
			to := top(im.Ours)
			if im.Ours == "" || to == from {
				continue
			}
			if h, ok := floors[to]; !ok || h >= height {
				found = append(found, Finding{f.Path, im.Line, fmt.Sprintf(
					"floor %s imports %s, but imports go down only (%s); instead let %s define the type or interface it needs and be given it from above",
					from, im.Path, order, from)})
			}
		}
	}
	return found
}

func top(p string) string {
	name, _, _ := strings.Cut(p, "/")
	return name
}
