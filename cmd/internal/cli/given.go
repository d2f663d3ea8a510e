package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// zeroIsUnset marks flags of which 0 is no value but stands for the flag left out.
const zeroIsUnset = "psrt-zero-is-unset"

// ZeroIsUnset marks numeric flags whose variable is 0 until somebody gives them, with what
// takes the place of 0. Given refuses 0 of them.
func ZeroIsUnset(fl *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := fl.Lookup(name)
		if f == nil {
			panic("cli: there is no flag --" + name)
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[zeroIsUnset] = []string{""}
	}
}

// Given refuses values that mean the same as the flag left out: who gave one meant
// something else, such as the value of a variable that is not set.
func Given(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err == nil {
			err = GivenFlag(f)
		}
	})
	return err
}

// GivenFlag is Given of one flag.
func GivenFlag(f *pflag.Flag) error {
	kind, text := f.Value.Type(), f.Value.String()
	_, numeric := f.Annotations[zeroIsUnset]
	switch {
	case numeric && (text == "0" || text == "0s"):
		return Usagef("--%s %s: must be above 0; leave the flag out for its default%s", f.Name, text, defaultOf(f))
	case text == "" && !strings.Contains(kind, "Slice") && f.DefValue != "":
		return Usagef("--%s %q: is empty; leave the flag out for its default, %s", f.Name, text, f.DefValue)
	case text == "" && !strings.Contains(kind, "Slice"):
		return Usagef("--%s %q: is empty; give a value, or leave the flag out", f.Name, text)
	}
	return nil
}

// defaultOf is the default, or what the help has of it in its last brackets.
func defaultOf(f *pflag.Flag) string {
	if f.DefValue != "0" && f.DefValue != "0s" {
		return ", " + f.DefValue
	}
	if i := strings.LastIndex(f.Usage, "("); i >= 0 && strings.HasSuffix(f.Usage, ")") {
		return fmt.Sprintf(", %s", f.Usage[i+1:len(f.Usage)-1])
	}
	return ""
}
