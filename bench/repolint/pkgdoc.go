package repolint

import (
	"go/ast"
	"strings"
)

// shortestDoc is how many characters a package comment needs at least to say
// what the package owns, what it must not know, and how one request passes.
const shortestDoc = 200

func checkDoc(t *Tree) []Finding {
	type folder struct {
		files    []*File
		doc      *ast.CommentGroup
		docPath  string
		atDocGo  bool
		packages string
	}
	folders := map[string]*folder{}
	var order []string
	for _, f := range t.GoFiles() {
		if f.Test() {
			continue
		}
		d := folders[f.Dir()]
		if d == nil {
			d = &folder{packages: f.Go.Name.Name}
			folders[f.Dir()] = d
			order = append(order, f.Dir())
		}
		d.files = append(d.files, f)
		if f.Go.Doc != nil && (d.doc == nil || f.Base() == "doc.go") {
			d.doc, d.docPath, d.atDocGo = f.Go.Doc, f.Path, f.Base() == "doc.go"
		}
	}
	var found []Finding
	for _, dir := range order {
		d := folders[dir]
		text := d.doc.Text()
		switch {
		case d.packages == "main" && !strings.HasPrefix(text, "Command "):
			found = append(found, Finding{dir, 0, "has no comment that begins with // Command NAME; instead say above package main what it does and show a call"})
		case d.packages == "main":
		case !d.atDocGo:
			found = append(found, Finding{dir, 0, "has no doc.go with a package comment; instead write one: what the package owns, what it must not know, the life of one request through it"})
		case !strings.HasPrefix(text, "Package "+d.packages+" "):
			found = append(found, Finding{d.docPath, 0, "does not begin with Package " + d.packages + "; instead name the package as godoc expects"})
		case len(text) < shortestDoc:
			found = append(found, Finding{d.docPath, 0, "says too little; instead write what the package owns, what it must not know, the life of one request through it"})
		}
	}
	return found
}
