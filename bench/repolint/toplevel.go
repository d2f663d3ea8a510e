package repolint

import (
	"slices"
	"strings"
)

// topLevel is all that may stand beside go.mod. What begins with a dot is the
// tools' and is let pass; bin and out are made and ignored.
var topLevel = []string{
	"rdma", "nccl", "tiers", "sched", "bench", "cmd", "csrc",
	"go.mod", "go.sum", "Makefile", "docs",
	"README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
	"bin", "out",
}

// mustStand is what a visitor looks for.
var mustStand = []string{"go.mod", "Makefile", "README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"}

func checkTopLevel(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.Top {
		if !slices.Contains(topLevel, name) && !strings.HasPrefix(name, ".") &&
			!strings.HasSuffix(name, ".test") && !strings.HasSuffix(name, ".prof") {
			found = append(found, Finding{name, 0, "does not belong on the top level; instead put it on its floor: " +
				"csrc, rdma, nccl, tiers, sched, bench or cmd (texts: docs)"})
		}
	}
	for _, name := range mustStand {
		if !slices.Contains(t.Top, name) {
			found = append(found, Finding{name, 0, "is missing on the top level; instead of removing it, keep it up to date"})
		}
	}
	return found
}
