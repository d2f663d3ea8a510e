package repolint

import (
	"flag"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the rules find into the fixtures' want sections")

// TestHouse holds the repository to the rules.
func TestHouse(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tree.GoFiles()); n < 50 {
		t.Fatalf("found %d Go files under %s: the rules would hold by looking at nothing", n, root)
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			for _, f := range r.Check(tree) {
				t.Error(f)
			}
		})
	}
}

// TestRulesFire runs every rule over its fixture, a small tree that breaks it
// and also comes close without breaking it, and compares all findings.
func TestRulesFire(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			name := filepath.Join("testdata", r.Name+".txt")
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("rule %s has no fixture that proves that it fires: %v", r.Name, err)
			}
			tree, want := fixture(string(text))
			var got strings.Builder
			for _, f := range r.Check(tree) {
				if !strings.Contains(f.Text, "instead") {
					t.Errorf("message does not say what to write instead: %s", f)
				}
				fmt.Fprintln(&got, f)
			}
			if got.Len() == 0 {
				t.Errorf("rule %s finds nothing in %s", r.Name, name)
			}
			if got.String() == want {
				return
			}
			if !*rewrite {
				t.Fatalf("%s: found\n%s\nwant\n%s\n(-rewrite accepts it)", name, got.String(), want)
			}
			before, _, _ := strings.Cut(string(text), wantMark)
			if err := os.WriteFile(name, []byte(before+wantMark+got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFixturesHaveRules finds fixtures left behind by a rule that is gone.
func TestFixturesHaveRules(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		known := slices.ContainsFunc(Rules(), func(r Rule) bool { return e.Name() == r.Name+".txt" })
		if !known {
			t.Errorf("testdata/%s belongs to no rule; instead remove it", e.Name())
		}
	}
}

const wantMark = "-- want --\n"

// fixture takes a text apart: "-- path --" lines, each followed by that file,
// and at last the findings. {dot} and {slash} stand for these signs, so that a
// fixture need not hold a forbidden word as it is; {lines N} for N lines.
func fixture(text string) (t *Tree, want string) {
	body, want, _ := strings.Cut(text, wantMark)
	t = &Tree{fset: token.NewFileSet()}
	for _, part := range strings.Split("\n"+body, "\n-- ")[1:] {
		path, content, _ := strings.Cut(part, " --")
		content = strings.TrimPrefix(content, "\n")
		content = strings.NewReplacer("{dot}", ".", "{slash}", "/").Replace(content)
		if !strings.HasSuffix(content, "\n") && content != "" {
			content += "\n"
		}
		if at := strings.Index(content, "{lines "); at >= 0 {
			var n int
			if _, err := fmt.Sscanf(content[at:], "{lines %d}", &n); err == nil {
				content = content[:at] + strings.Repeat("// line\n", n)
			}
		}
		if name := top(path); !slices.Contains(t.Top, name) {
			t.Top = append(t.Top, name)
		}
		t.add(path, []byte(content))
	}
	return t, want
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", fmt.Errorf("no go.mod here or above: run the test inside the repository")
	}
}
