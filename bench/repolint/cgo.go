package repolint

import (
	"regexp"
	"strings"
)

// upward finds C that includes files outside its own folder, which Go does not
// track: an edit there leaves the old object in use.
var upward = regexp.MustCompile(`(?m)^(?://|\s)*#\s*include\s+"[^"]*\.\./`)

func checkCgo(t *Tree) []Finding {
	byPath := make(map[string]*File, len(t.Files))
	for _, f := range t.Files {
		byPath[f.Path] = f
	}
	var found []Finding
	for _, f := range t.Files {
		if isC(f) || f.Go != nil && within(f.Dir(), []string{"csrc", "cmd/libpsrt"}) {
			if at := upward.FindIndex(f.Text); at != nil {
				found = append(found, Finding{f.Path, 1 + strings.Count(string(f.Text[:at[0]]), "\n"),
					"includes a file of another folder, whose edits Go does not see; instead keep each C unit and its header in one package"})
			}
		}
		if f.Go == nil {
			continue
		}
		for _, im := range t.Imports(f) {
			if im.Path == "C" {
				found = append(found, checkCgoFile(f, im.Line, byPath)...)
			}
		}
	}
	return found
}

func checkCgoFile(f *File, line int, byPath map[string]*File) []Finding {
	if f.Dir() == "cmd/libpsrt" {
		return nil // the library itself: it has no form without cgo
	}
	if !strings.HasPrefix(f.Path, "csrc/") {
		return []Finding{{f.Path, line, `import "C" stands only in csrc and cmd/libpsrt; instead wrap the C in a small package under csrc`}}
	}
	stem, named := strings.CutSuffix(f.Path, "_cgo.go")
	if !named {
		return []Finding{{f.Path, line, `a file with import "C" is named *_cgo.go; instead of this name, rename it`}}
	}
	if !constrained(f, "cgo") {
		return []Finding{{f.Path, 1, "has no line //go:build cgo; instead begin the file with it"}}
	}
	twin := byPath[stem+"_nocgo.go"]
	if twin == nil || twin.Go == nil {
		return []Finding{{f.Path, 0, "has no twin " + stem + "_nocgo.go, so CGO_ENABLED=0 breaks every importer; " +
			"instead add it: the same functions in Go, or returning ErrNotSupported"}}
	}
	if !constrained(twin, "!cgo") {
		return []Finding{{twin.Path, 1, "has no line //go:build !cgo; instead begin the file with it"}}
	}
	return nil
}

// constrained says whether a file's build line demands tag, alone or with others.
func constrained(f *File, tag string) bool {
	for line := range strings.Lines(string(f.Text)) {
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:build "); ok {
			for term := range strings.SplitSeq(expr, "&&") {
				if strings.TrimSpace(term) == tag {
					return true
				}
			}
			return false
		}
	}
	return false
}

func isC(f *File) bool { return strings.HasSuffix(f.Path, ".c") || strings.HasSuffix(f.Path, ".h") }

func checkUnsafe(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		name := strings.TrimSuffix(strings.TrimSuffix(f.Base(), ".go"), "_test")
		if strings.HasSuffix(name, "_unsafe") || strings.HasSuffix(name, "_cgo") {
			continue
		}
		for _, im := range t.Imports(f) {
			if im.Path == "unsafe" {
				found = append(found, Finding{f.Path, im.Line,
					"imports unsafe; instead use rdma/mem's casts, or move the few lines to a file named *_unsafe.go (tests: *_unsafe_test.go)"})
			}
		}
	}
	return found
}
