package repolint

import "fmt"

// Finding is one place where a rule is broken.
type Finding struct {
	Path string
	Line int // 0: the file, or the folder, as a whole
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Rule is one rule of the house.
type Rule struct {
	Name  string // also the name of its fixture, testdata/NAME.txt
	Check func(*Tree) []Finding
}

// Rules are all rules, in the order in which they are checked.
func Rules() []Rule {
	return []Rule{
		{"toplevel", checkTopLevel},
		{"parse", checkParse},
		{"format", checkFormat},
		{"floors", checkFloors},
		{"edges", checkEdges},
		{"foreign", checkForeign},
		{"cgo", checkCgo},
		{"unsafe", checkUnsafe},
		{"doc", checkDoc},
		{"pure", checkPure},
		{"size", checkSize},
		{"words", checkWords},
		{"init", checkInit},
		{"exit", checkExit},
		{"skip", checkSkip},
	}
}
