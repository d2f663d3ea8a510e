package repolint

import (
	"fmt"
	"strings"
)

// foreign keeps packages from outside where they belong.
var foreign = []struct {
	prefix  string   // of the import path
	only    []string // folders that may import it
	tests   bool     // tests and test benches may, too
	instead string
}{
	{"github.com/spf13/", []string{"cmd"}, false, "take a Config struct: only cmd knows flags"},
	{"flag", []string{"cmd"}, true, "take a Config struct: only cmd knows flags"},
	{"testing", []string{"bench"}, true,
		"name the few methods needed in an interface of your own, so that programs do not link testing"},
	{"go.etcd.io/", []string{"sched/coord/etcd"}, true, "take a coord.Coordinator"},
	{"github.com/cilium/ebpf", []string{"sched/probe", "rdma/feature", "csrc/bpf"}, true, "read what sched/probe gathers"},
}

func checkForeign(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		for _, im := range t.Imports(f) {
			for _, r := range foreign {
				match := im.Path == r.prefix || strings.HasPrefix(im.Path, strings.TrimSuffix(r.prefix, "/")+"/")
				if match && !within(f.Dir(), r.only) && (!r.tests || !f.Test() && !testBench(f.Dir())) {
					found = append(found, Finding{f.Path, im.Line, fmt.Sprintf("%s must not import %s; instead %s", f.Dir(), im.Path, r.instead)})
				}
			}
		}
	}
	return found
}
