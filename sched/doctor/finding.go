package doctor

import "fmt"

// State of a finding.
const (
	OK      = "ok"
	Warn    = "warn"
	Missing = "missing"
)

// Finding is one line.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Figure string `json:"figure"`
	Mend   string `json:"mend,omitempty"` // the command
	// Peer is who has it, "" this machine.
	Peer string `json:"peer,omitempty"`
	// Asked: the caller named what this is about, and needs it.
	Asked bool `json:"asked,omitempty"`

	theirs bool // of Peer's machine, as it says itself
}

// String is for people.
func (f *Finding) String() string {
	name := f.Name
	if f.Peer != "" {
		name = f.Peer + ": " + name
	}
	line := fmt.Sprintf("%-8s %-40s %s", f.State, name, f.Figure)
	if f.Mend != "" {
		line += "; try: " + f.Mend
	}
	return line
}

// Failed counts the findings that were asked for and are not OK.
func Failed(all []Finding) (n int) {
	for _, f := range all {
		if f.Asked && f.State != OK {
			n++
		}
	}
	return n
}
