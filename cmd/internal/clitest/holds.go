package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Holds fails the test for every command line of the program in the README and in docs/ of the
// repository at top that names a command or a flag which the program does not have. There
// must be at least so many lines, or it has looked at the wrong place.
func Holds(t *testing.T, root *cobra.Command, top string, least int) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(top, "README.md"), filepath.Join(top, "BUILD.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range Lines(string(text)) {
			args, is := argsOf(line, root.Name())
			if !is {
				continue
			}
			found++
			if err := check(root, args); err != nil {
				t.Errorf("%s: %q: %v", filepath.Base(page), line, err)
			}
		}
	}
	if found < least {
		t.Errorf("%d command lines of %s, want at least %d", found, root.Name(), least)
	}
}

var (
	fenced    = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	indented  = regexp.MustCompile(`(?m)^(?:    |\t)(\S.*)$`)
	quoted    = regexp.MustCompile("`([^`]+)`")
	continued = regexp.MustCompile(`\s*\\\n\s*`)
	ends      = regexp.MustCompile(`\s(?:[|;>#&]|&&|\d?>&?\S*)(?:\s|$)|;\s`)
)

// Lines are the command lines of a page, and whatever else is written as code.
func Lines(page string) (all []string) {
	page = continued.ReplaceAllString(page, " ")
	take := func(code string) {
		for _, line := range strings.Split(code, "\n") {
			for _, part := range ends.Split(line+"\n", -1) {
				if part = strings.TrimSpace(part); part != "" {
					all = append(all, part)
				}
			}
		}
	}
	for _, form := range []*regexp.Regexp{fenced, indented} {
		page = form.ReplaceAllStringFunc(page, func(s string) string {
			take(form.FindStringSubmatch(s)[1])
			return ""
		})
	}
	for _, m := range quoted.FindAllStringSubmatch(page, -1) {
		take(strings.ReplaceAll(m[1], "\n", " ")) // a line of text may end anywhere
	}
	return all
}

// argsOf are the words behind the program's name.
func argsOf(line, program string) (args []string, is bool) {
	words := strings.Fields(line)
	for i, w := range words {
		if w == program || strings.HasSuffix(w, "/"+program) {
			return words[i+1:], true
		}
	}
	return nil, false
}

var flagWord = regexp.MustCompile(`^\[?--([a-z0-9][a-z0-9-]*)`)

// check looks for a command and its flags.
func check(root *cobra.Command, args []string) error {
	at := root
	for _, w := range args {
		if m := flagWord.FindStringSubmatch(w); m != nil {
			if at.Flags().Lookup(m[1]) == nil && at.InheritedFlags().Lookup(m[1]) == nil && m[1] != "help" {
				return fmt.Errorf("%s has no flag --%s", at.CommandPath(), m[1])
			}
			continue
		}
		if !at.HasSubCommands() || strings.HasPrefix(w, "-") {
			continue
		}
		next := under(at, w)
		switch {
		case next != nil:
			at = next
		case at == root && word.MatchString(w):
			return fmt.Errorf("%s has no command %s", root.Name(), w)
		}
	}
	return nil
}

var word = regexp.MustCompile(`^[a-z]+$`)

func under(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}
