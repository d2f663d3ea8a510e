package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The servers and clients of psrt serve run in psrt train as well: their messages name flags
// that psrt serve has, too.
func TestMessagesOfServersNameFlagsOfServe(t *testing.T) {
	serve := newServe().Flags()
	others := map[string]bool{"map-by": true, "distribution": true} // of mpirun and srun
	flags, named := regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z-]+)`), 0
	for _, dir := range []string{"server", "serve", "serve/keeper", "replica", "chain", "kv", "client", "place", "psmsg", "stall", "coord", "member"} {
		files, err := filepath.Glob(filepath.Join("../../sched", dir, "*.go"))
		must(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			must(t, err)
			file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
			must(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				message, err := strconv.Unquote(lit.Value)
				must(t, err)
				for _, m := range flags.FindAllStringSubmatch(message, -1) {
					named++
					if serve.Lookup(m[1]) == nil && !others[m[1]] {
						t.Errorf("%s: %q names --%s, which psrt serve lacks", path, message, m[1])
					}
				}
				return true
			})
		}
	}
	if named < 20 {
		t.Errorf("only %d flags are named in messages: does this test still read them?", named)
	}
}

// A server that is one of several shares their --mem-budget: the least that works is that of
// all. A table's own memory is each server's.
func TestMemoryOfSeveralServers(t *testing.T) {
	for line, want := range map[string]string{
		`{"event":"failed","memory":{"bytes":10,"least":100}}`:                         "a memory of 30 bytes",
		`{"event":"failed","memory":{"table":"a","bytes":10,"least":100},"error":"x"}`: "x",
		`{"event":"failed","error":"y"}`:                                               "y",
	} {
		var r readiness
		must(t, json.Unmarshal([]byte(line), &r))
		if got := r.failure(3); !strings.Contains(got, want) || r.Memory != nil && r.Memory.Table == "" && !strings.Contains(got, " 300 bytes") {
			t.Errorf("%s: %s", line, got)
		}
	}
}
