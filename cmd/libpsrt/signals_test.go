//go:build cgo

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Handlers without SA_ONSTACK, installed after the load of the library, interrupt calls
// of all kinds. PSRT_SIGNAL_RUNS asks for more runs; make full runs 50.
func TestSignalHandlersWithoutStack(t *testing.T) {
	w := servers(t, "tcp", 1)
	runs, err := strconv.Atoi(fromEnv("PSRT_SIGNAL_RUNS", "1"))
	if err != nil {
		t.Fatal(err)
	}
	prog, cfg := program(t, "signals"), config(t, w, "tcp", 0)
	for range runs {
		if said := run(t, prog, cfg, "2000"); said != "" {
			t.Fatalf("output: %s", said)
		}
	}
}

// Every exported function begins with makeRoom, behind the recovery of panics.
func TestExportedFunctionsMakeRoom(t *testing.T) {
	files, err := filepath.Glob("*_cgo.go")
	if err != nil {
		t.Fatal(err)
	}
	exported := 0
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "psrtgo_") {
				continue
			}
			exported++
			body := f.Body.List
			if len(body) > 0 {
				if _, ok := body[0].(*ast.DeferStmt); ok {
					body = body[1:]
				}
			}
			if len(body) == 0 || !calls(body[0], "makeRoom") {
				t.Errorf("%s: %s does not begin with makeRoom(): a signal handler that interrupts it may write over Go's heap (signals.h)", file, f.Name.Name)
			}
		}
	}
	if exported < 30 {
		t.Errorf("%d exported functions found", exported)
	}
}

func calls(s ast.Stmt, name string) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := c.Fun.(*ast.Ident)
	return ok && id.Name == name
}
