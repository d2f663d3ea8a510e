package table

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLifecycleDocumentation: every parameter is in docs/lifecycle.md, and every
// example there can be used as it stands.
func TestLifecycleDocumentation(t *testing.T) {
	b, err := os.ReadFile("../../docs/lifecycle.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	l := DefaultLifecycle()
	for name, v := range fields(l) {
		part, isPart := v.(PartRule)
		if !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "`"+name+": ") {
			t.Errorf("%s is not in the documentation", name)
		}
		if f, isFloat := v.(float64); isFloat && !strings.Contains(doc, fmt.Sprint(f)) {
			t.Errorf("%s's default, %v, is not in the documentation", name, f)
		}
		if !isPart {
			continue
		}
		for sub := range fields(part) {
			if !strings.Contains(doc, "`"+sub+"`") {
				t.Errorf("%s.%s is not in the documentation", name, sub)
			}
		}
	}
	for name, v := range fields(DefaultSchedule()) {
		if !strings.Contains(doc, "`"+name+"`") || !strings.Contains(doc, fmt.Sprint(v)) {
			t.Errorf("%s or its default, %v, is not in the documentation", name, v)
		}
	}
	examples := 0
	for block := range strings.SplitSeq(doc, "\n\n") {
		text := strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n    ", "\n"), "\n")
		if text == block || strings.Contains(block, "\n|") || !strings.Contains(text, ": ") || !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "{") {
			continue
		}
		examples++
		if _, _, err := ParseAccessor([]byte(text)); err != nil {
			t.Errorf("example:\n%s\n%v", text, err)
		}
	}
	if examples < 4 {
		t.Errorf("%d examples found, there are 4", examples)
	}
}
