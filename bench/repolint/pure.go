package repolint

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// purePackages are state machines: all they learn comes in as arguments, all
// they do goes out as results, so that a test can replay any history.
var purePackages = []string{"sched/place", "sched/clock", "sched/chain", "sched/member", "sched/fanin", "sched/tree", "sched/pipe/settle", "sched/compress/span", "sched/plan", "sched/ledger", "nccl/hier", "sched/densesplit", "tiers/hbm/deal"}

// impure are imports that reach outside. math/rand (not v2) is seeded by the
// process.
var impure = []string{"net", "os", "syscall", "math/rand", "crypto/rand", "golang.org/x/sys", "log", "sync", "io/fs"}

// impureCalls are functions of packages that may be imported for their types.
// Of math/rand/v2 all functions draw from the process's own source but those
// that make a generator.
var impureCalls = map[string][]string{
	"time": {"Now", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Since", "Until"},
}

const pureInstead = "; instead take what is needed (the time, the message, a seeded generator) as an argument and return what is to be done"

func checkPure(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		if f.Test() || !within(f.Dir(), purePackages) {
			continue
		}
		names := map[string]string{} // name in this file -> import path
		for _, im := range t.Imports(f) {
			// math/rand/v2 lies within math/rand and is judged by its calls.
			if im.Path != "math/rand/v2" && within(im.Path, impure) {
				found = append(found, Finding{f.Path, im.Line, "pure package " + f.Dir() + " imports " + im.Path + pureInstead})
			}
		}
		for _, spec := range f.Go.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has checked it
			}
			name := strings.TrimSuffix(p, "/v2")
			name = name[strings.LastIndex(name, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			names[name] = p
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = append(found, Finding{f.Path, t.Line(n.Pos()), "pure package " + f.Dir() + " starts a goroutine" + pureInstead})
			case *ast.SelectorExpr:
				x, isName := n.X.(*ast.Ident)
				if isName && impureCall(names[x.Name], n.Sel.Name) {
					found = append(found, Finding{f.Path, t.Line(n.Pos()),
						"pure package " + f.Dir() + " uses " + x.Name + "." + n.Sel.Name + pureInstead})
				}
			}
			return true
		})
	}
	return found
}

func impureCall(pkg, name string) bool {
	if pkg == "math/rand/v2" {
		return !strings.HasPrefix(name, "New") && !slices.Contains([]string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}, name)
	}
	return slices.Contains(impureCalls[pkg], name)
}
