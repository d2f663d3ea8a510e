package repolint

import (
	"fmt"
	"regexp"
	"strings"
)

// words are patterns that no text of the repository may contain. They are
// written so that they do not match themselves.
var words = []struct {
	pattern *regexp.Regexp
	goOnly  bool // only in Go and C
	instead string
}{
	{
		regexp.MustCompile(`\b(?:(?:proxy|sum)[.]golang[.]org|(?:deb|security)[.]debian[.]org|archive[.]ubuntu[.]com|` +
			`pypi[.]org|files[.]pythonhosted[.]org|crates[.]io|registry[.]npmjs[.]org|repo1?[.]maven[.](?:apache[.])?org)\b`),
		false,
		"use the registry that the client on the machine is set up for, without naming it",
	},
	{
		regexp.MustCompile(`(?:^|[\s"'=(:,` + "`" + `])/(?:work|root)/[\w.]`),
		false,
		"take the path as an argument, or make a temporary folder",
	},
	{
		regexp.MustCompile(`\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b`),
		true,
		"do it, or file an issue",
	},
}

func checkWords(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		code := f.Go != nil || isC(f)
		number := 0
		for line := range strings.Lines(string(f.Text)) {
			number++
			for _, w := range words {
				if w.goOnly && !code {
					continue
				}
				if m := w.pattern.FindString(line); m != "" {
					found = append(found, Finding{f.Path, number, fmt.Sprintf("contains %q; instead %s", strings.TrimSpace(m), w.instead)})
				}
			}
		}
	}
	return found
}
