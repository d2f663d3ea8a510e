package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unguarded are functions whose goroutines may go without a guard, and why.
var unguarded = map[string]string{
	"rdma/dial:Listen":     "a listener: only servers have one",
	"rdma/dial:acceptLoop": "a listener: only servers have one",
	"rdma/dial:connect":    "of an incoming connection: only servers have one",
	"rdma/dial:Serve":      "answers calls: only servers are asked",
	"rdma/tcp:open":        "waits for one of two channels",
	"sched/kv:broken":      "takes a lock and wakes",
	"sched/client:hangUp":  "closes one connection of the kernel's",
	"sched/client:askAll":  "for clients that tell stalls, which the library's do not",
}

// A panic in a goroutine of the library's own would end the host process: whatever
// starts one inside a client does so under a guard.
func TestGoroutinesAreGuarded(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{"rdma/dial", "rdma/shm", "rdma/tcp", "rdma/verbs", "sched/client", "sched/kv"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					var what ast.Expr
					switch n := n.(type) {
					case *ast.GoStmt:
						what = n.Call
					case *ast.CallExpr:
						if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
							what = n.Args[0]
						}
					}
					if what == nil {
						return true
					}
					code := string(text[set.Position(what.Pos()).Offset:set.Position(what.End()).Offset])
					place := dir + ":" + f.Name.Name
					switch {
					case strings.HasPrefix(code, "rdma.Guarded("), strings.HasPrefix(code, "c.guarded("):
					case unguarded[place] != "":
						used[place] = true
					default:
						t.Errorf("%s: %s starts a goroutine whose panic would end the process that links libpsrt: wrap it, go rdma.Guarded(...OnPanic, f)()", set.Position(what.Pos()), f.Name.Name)
					}
					return true
				})
			}
		}
	}
	for place := range unguarded {
		if !used[place] {
			t.Errorf("%s starts no goroutine any more: take it from the list", place)
		}
	}
}
