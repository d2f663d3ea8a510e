package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"psrt/csrc/nvml"
)

const nvlinkName = "NVLink"

// joiner knows what cards have between them, by their PCI addresses: the driver's library.
type joiner interface {
	Links(bus string) (up int, err error)
	Between(one, other string) (nvml.Way, error)
}

// nvlink asks the driver's library, which may keep us as long as its driver wants: it is a
// group of its own.
func (x *examiner) nvlink() []Finding {
	var buses []string
	for _, file := range x.glob("proc/driver/nvidia/gpus/*/information") {
		buses = append(buses, filepath.Base(filepath.Dir(file)))
	}
	if len(buses) < 2 || !x.here() && os.Getenv(nvml.Variable) == "" { // a tree of files has no driver of its own
		return nil
	}
	l, err := nvml.Load("")
	if err != nil {
		return []Finding{unknownLinks(err)}
	}
	return []Finding{joined(buses, l)}
}

func unknownLinks(err error) Finding {
	return Finding{Name: nvlinkName, State: Missing, Figure: fmt.Sprintf("not known: %v", err), Mend: "install " + nvml.Name + " of the driver's version; nvidia-smi topo -m shows links, too"}
}

// joined says which pairs of cards have NVLink between them and which reach each other's
// memory over PCIe alone, or not at all.
func joined(buses []string, l joiner) Finding {
	var pairs [3][]string
	for i, b := range buses {
		for _, a := range buses[:i] {
			w, err := l.Between(a, b)
			if err != nil {
				return unknownLinks(err)
			}
			kind := 2
			switch {
			case w.NVLink:
				kind = 0
			case w.Peer:
				kind = 1
			}
			pairs[kind] = append(pairs[kind], a+" and "+b)
		}
	}
	var figure []string
	for kind, name := range []string{"NVLink between ", "memory of each other over PCIe alone: ", "no memory of each other: "} {
		if n := len(pairs[kind]); n > 0 {
			figure = append(figure, name+listed(pairs[kind], len(buses)*(len(buses)-1)/2))
		}
	}
	f := Finding{Name: nvlinkName, State: OK}
	if len(pairs[0]) > 0 {
		up := make([]int, len(buses))
		most := 0
		for i, b := range buses {
			var err error
			if up[i], err = l.Links(b); err != nil {
				return unknownLinks(err)
			}
			most = max(most, up[i])
		}
		figure = append(figure, fmt.Sprintf("up to %d links up a card", most))
		for i, b := range buses {
			if up[i] > 0 && up[i] < most { // one without any has none
				f.State, f.Mend = Warn, "nvidia-smi nvlink --status"
				figure = append(figure, fmt.Sprintf("only %d at %s", up[i], b))
			}
		}
	}
	f.Figure = strings.Join(figure, "; ")
	return f
}

// mostPairs are named, of more their number is.
const mostPairs = 4

func listed(pairs []string, all int) string {
	switch n := len(pairs); {
	case n == all && n > 1:
		return fmt.Sprintf("all %d pairs", n)
	case n > mostPairs:
		return fmt.Sprintf("%d of %d pairs", n, all)
	}
	return strings.Join(pairs, ", ")
}
