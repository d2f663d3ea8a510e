package repolint

import (
	"fmt"
	"go/ast"
	"strings"
)

// One idea a file. These are the hard limits; most files are a tenth of it.
const (
	maxGoLines = 1000
	maxCLines  = 700
)

func checkSize(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		var limit int
		switch {
		case f.Go != nil && !ast.IsGenerated(f.Go):
			limit = maxGoLines
		case isC(f) && !strings.HasPrefix(string(f.Text), "// Code generated "):
			limit = maxCLines
		default:
			continue
		}
		if n := f.Lines(); n > limit {
			found = append(found, Finding{f.Path, 0, fmt.Sprintf("has %d lines, at most %d are allowed; instead split it: one idea a file", n, limit)})
		}
	}
	return found
}
