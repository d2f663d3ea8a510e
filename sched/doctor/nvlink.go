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
	Links(bus string) (up, all int, err error)
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
		return []Finding{{Name: nvlinkName, State: Missing, Figure: fmt.Sprintf("not known: %v", err), Mend: "install " + nvml.Name + " of the driver's version; nvidia-smi topo -m shows links, too"}}
	}
	return []Finding{joined(buses, l)}
}

// joined says which pairs of cards have NVLink between them and which reach each other's
// memory over PCIe alone, or not at all. A card that does not answer hides no other's.
func joined(all []string, l joiner) Finding {
	f := Finding{Name: nvlinkName, State: OK}
	var buses, figure, silent []string
	up, have := make(map[string]int), make(map[string]int)
	most := 0
	for _, b := range all {
		var err error
		if up[b], have[b], err = l.Links(b); err != nil {
			silent = append(silent, b)
			figure = append(figure, fmt.Sprintf("not known: %v", err))
			continue
		}
		buses = append(buses, b)
		most = max(most, up[b])
	}
	var pairs [3][]string
	for i, b := range buses {
		for _, a := range buses[:i] {
			w, err := l.Between(a, b)
			kind := 2
			switch {
			case err != nil:
				f.State, f.Mend = Warn, "nvidia-smi topo -m"
				figure = append(figure, fmt.Sprintf("not known: %v", err))
				continue
			case w.NVLink:
				kind = 0
			case w.Peer:
				kind = 1
			}
			pairs[kind] = append(pairs[kind], a+" and "+b)
		}
	}
	for kind, name := range []string{"NVLink between ", "memory of each other over PCIe alone: ", "no memory of each other: "} {
		if n := len(pairs[kind]); n > 0 {
			figure = append(figure, name+listed(pairs[kind], len(buses)*(len(buses)-1)/2))
		}
	}
	if most > 0 {
		figure = append(figure, fmt.Sprintf("up to %d links up a card", most))
	}
	for _, b := range buses {
		switch {
		case have[b] > 0 && up[b] < most:
			f.State, f.Mend = Warn, "nvidia-smi nvlink --status"
			figure = append(figure, fmt.Sprintf("only %d of %d at %s", up[b], have[b], b))
		case have[b] > 0 && most == 0: // so are those of cards for whom no bridge was bought
			figure = append(figure, fmt.Sprintf("none of %d links up at %s", have[b], b))
		}
	}
	if len(silent) > 0 {
		f.State, f.Mend = Warn, "nvidia-smi -q -i "+strings.Join(silent, ",")+" and dmesg's Xid lines: a lost card comes back by its reset or a reboot"
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
