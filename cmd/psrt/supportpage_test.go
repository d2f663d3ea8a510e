package main

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// supportPage is docs/support.md in the making.
type supportPage struct {
	names   []string // of features
	marks   map[string]map[cell]string
	reasons []string // of refusals, numbered from 1
}

// What stands in a cell.
const (
	inTest   = "**yes**"
	inFull   = "yes"
	untested = "?"
)

func newSupportPage() *supportPage { return &supportPage{marks: map[string]map[cell]string{}} }

func (p *supportPage) mark(feature string, c cell, mark string) {
	if p.marks[feature] == nil {
		p.marks[feature] = map[cell]string{}
		p.names = append(p.names, feature)
	}
	p.marks[feature][c] = mark
}

func (p *supportPage) refuse(feature string, c cell, why string) {
	n := slices.Index(p.reasons, why)
	if n < 0 {
		n = len(p.reasons)
		p.reasons = append(p.reasons, why)
	}
	p.mark(feature, c, fmt.Sprintf("no (%d)", n+1))
}

func (p *supportPage) plan(feature string, few, many []cell) {
	for _, c := range many {
		p.mark(feature, c, inFull)
	}
	for _, c := range few {
		p.mark(feature, c, inTest)
	}
}

const supportHead = `# What goes with what

Made by the tests (` + "`go test ./cmd/psrt -run TestSupportPage -rewrite`" + `), and held against what they run: do not edit.

Each cell is a small job of ` + "`psrt train`" + ` with its ranks as processes: trained to the end, every row once, the log loss
sane, what the feature is for found in the result, and under bsp the digest the same in all cells of a row that are run together (and that of
another feature where this one is not to change the model: see *Features*; not of topk, auto and table-sync). **yes**: run by ` + "`make test`" + `, of each row at least two
cells in bsp over different transports, with rows in different tiers; yes: by ` + "`make full`" + ` too (` + "`PSRT_SUPPORT=all`" + `); ?: accepted, and run by no test; no: refused before
anything starts (exit code 2), in the words below. verbs is run where there is an RDMA device, and by ` + "`make full`" + ` in the lab (` + "`PSRT_SUPPORT=verbs`" + `), beside the
**yes** of other transports. The test of a cell is ` + "`go test ./cmd/psrt -run 'TestSupport/FEATURE/TRANSPORT/TIER/SYNC'`" + `.

Tiers: memory; ssd, ` + "`--ssd`" + ` with a ` + "`--mem-budget`" + ` that most rows do not fit into; hbm, ` + "`--hbm-budget`" + ` on the host's memory (its twin). ssp is
` + "`--staleness 3`" + `. Faults (a process that is killed, a link that is cut) are not in here: see [replication.md](replication.md).
`

// accepts says whether a feature goes with a sync mode anywhere.
func (p *supportPage) accepts(feature, sync string) bool {
	for c, mark := range p.marks[feature] {
		if c.sync == sync && !strings.HasPrefix(mark, "no") {
			return true
		}
	}
	return false
}

// text is the page.
func (p *supportPage) text() string {
	var b strings.Builder
	b.WriteString(supportHead)
	for _, transport := range transports {
		fmt.Fprintf(&b, "\n## %s\n\n| |", transport)
		for _, tier := range tierNames {
			for _, sync := range syncNames {
				fmt.Fprintf(&b, " %s %s |", tier, sync)
			}
		}
		b.WriteString("\n|" + strings.Repeat(" --- |", 1+len(tierNames)*len(syncNames)) + "\n")
		for _, name := range p.names {
			fmt.Fprintf(&b, "| %s |", name)
			for _, c := range cells([]string{transport}) {
				mark := p.marks[name][c]
				if mark == "" {
					mark = untested
				}
				fmt.Fprintf(&b, " %s |", mark)
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n## Features\n\n| | flags | digest under bsp |\n| --- | --- | --- |\n")
	for _, f := range features() {
		flags := strings.TrimSpace(f.ranks + " " + f.flags)
		if flags == "" {
			flags = "--model fm --optimizer adam --servers 2 --workers 2"
		}
		digest := "its own"
		if f.like != "" {
			digest = "that of " + f.like
		} else if f.varies {
			digest = "varies"
		} else if !p.accepts(f.name, train.BSP) {
			digest = ""
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", f.name, flags, digest)
	}
	b.WriteString("\n## Tried by tests of their own\n\n| | commands | tests (`go test ./cmd/psrt -run …`) |\n| --- | --- | --- |\n")
	for _, e := range triedElsewhere() {
		var names []string
		for _, f := range e.tests {
			name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
			names = append(names, name[strings.LastIndex(name, ".")+1:])
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", e.what, strings.ReplaceAll(e.commands, "|", `\|`), strings.Join(names, ", "))
	}
	if len(p.reasons) > 0 {
		b.WriteString("\n## Refused\n\n")
		for i, why := range p.reasons {
			fmt.Fprintf(&b, "%d. `%s`\n", i+1, why)
		}
	}
	return b.String()
}

// compare holds the page against the file, or writes it.
func (p *supportPage) compare(t *testing.T, path string) {
	text := p.text()
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text {
		t.Errorf("%s is not what the tests run and psrt refuses: go test ./cmd/psrt -run TestSupportPage -rewrite", path)
	}
}

// TestCover: what is chosen has every value that there is, and nothing that is not.
func TestCover(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		var some []cell
		for _, c := range cells(transports) {
			if r.IntN(4) == 0 {
				some = append(some, c)
			}
		}
		chosen := cover(some, r.IntN(40))
		has := map[string]bool{}
		for _, c := range chosen {
			has[c.transport], has[c.tier], has[c.sync] = true, true, true
			if !slices.Contains(some, c) {
				t.Fatalf("%s was not to choose from", c)
			}
		}
		for _, c := range some {
			if !has[c.transport] || !has[c.tier] || !has[c.sync] {
				t.Fatalf("nothing chosen is like %s: %v of %v", c, chosen, some)
			}
		}
		if len(chosen) > 8 {
			t.Errorf("%d cells chosen of %d: %v", len(chosen), len(some), chosen)
		}
	}
}
