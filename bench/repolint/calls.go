package repolint

import (
	"go/ast"
	"slices"
	"strings"
)

func checkInit(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		if within(f.Dir(), []string{"cmd"}) || ast.IsGenerated(f.Go) {
			continue
		}
		for _, d := range f.Go.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, Finding{f.Path, t.Line(fn.Pos()),
					"has an init function; instead let the caller pass what it wants used: only cmd and rdma/dial know all implementations"})
			}
		}
	}
	return found
}

// exits are calls that end the process.
var exits = map[string][]string{
	"os":  {"Exit"},
	"log": {"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"},
}

func checkExit(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		// rdma/invariant holds the tests' TestMain, whose last word is os.Exit.
		if f.Test() || within(f.Dir(), []string{"cmd", "rdma/invariant"}) {
			continue
		}
		eachCall(f, func(call *ast.CallExpr, recv, name string) {
			if slices.Contains(exits[recv], name) {
				found = append(found, Finding{f.Path, t.Line(call.Pos()),
					"calls " + recv + "." + name + "; instead return an error: only cmd ends a process"})
			}
		})
	}
	return found
}

func checkSkip(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		if f.Path == "rdma/feature/skip.go" {
			continue
		}
		eachCall(f, func(call *ast.CallExpr, recv, name string) {
			tests := slices.Contains([]string{"t", "b", "f", "tb"}, strings.ToLower(recv))
			if tests && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name) {
				found = append(found, Finding{f.Path, t.Line(call.Pos()),
					"calls " + recv + "." + name + "; instead use rdma/feature.SkipUnless with the feature the machine must have, or make the test run everywhere"})
			}
		})
	}
	return found
}

// eachCall visits the calls of the form recv.name(...).
func eachCall(f *File, visit func(call *ast.CallExpr, recv, name string)) {
	ast.Inspect(f.Go, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				visit(call, x.Name, sel.Sel.Name)
			}
		}
		return true
	})
}
