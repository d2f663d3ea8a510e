package repolint

import (
	"regexp"
	"strings"
)

// words are patterns that no text of the repository may contain. They are
// written so that they do not match themselves.
var words = []struct {
	what    string // not the match itself: a report, too, is a text
	pattern *regexp.Regexp
	goOnly  bool // only in Go and C
	instead string
}{
	{
		"the host of a package registry",
		regexp.MustCompile(`\b(?:(?:proxy|sum)[.]golang[.]org|(?:deb|security)[.]debian[.]org|archive[.]ubuntu[.]com|` +
			`pypi[.]org|files[.]pythonhosted[.]org|crates[.]io|registry[.]npmjs[.]org|repo1?[.]maven[.](?:apache[.])?org)\b`),
		false,
		"use the registry that the client on the machine is set up for, without naming it",
	},
	{
		"a path of one machine",
		regexp.MustCompile(`(?:^|[\s"'=(:,` + "`" + `])/(?:work|root)/[\w.]`),
		false,
		"take the path as an argument, or make a temporary folder",
	},
	{
		"a mark of unfinished work",
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
				if w.pattern.MatchString(line) {
					found = append(found, Finding{f.Path, number, "contains " + w.what + "; instead " + w.instead})
				}
			}
		}
	}
	return found
}
