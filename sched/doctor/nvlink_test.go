//go:build cgo

package doctor

import (
	"errors"
	"fmt"
	"testing"

	"psrt/csrc/nvml"
	"psrt/csrc/nvml/nvmltest"
)

// TestNVLink: pairs of cards with NVLink between them are told from those that reach each
// other over PCIe, or not at all; a link that is down is said, and a lost card hides no other.
func TestNVLink(t *testing.T) {
	l, err := nvml.Load(nvmltest.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	const one, two, three, four, five, lost = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0", "0000:09:00.0"
	for _, c := range []struct {
		buses               []string
		state, figure, mend string
	}{
		{[]string{one, two}, Warn, "NVLink between " + one + " and " + two + "; up to 2 links up a card; only 1 of 2 at " + two, "nvidia-smi nvlink --status"},
		{[]string{one, three, four}, OK, "memory of each other over PCIe alone: " + one + " and " + three +
			"; no memory of each other: " + one + " and " + four + ", " + three + " and " + four + "; up to 2 links up a card", ""},
		{[]string{one, two, three, four}, Warn, "NVLink between " + one + " and " + two + "; memory of each other over PCIe alone: " + one + " and " + three + ", " + two + " and " + three +
			"; no memory of each other: " + one + " and " + four + ", " + two + " and " + four + ", " + three + " and " + four + "; up to 2 links up a card; only 1 of 2 at " + two, "nvidia-smi nvlink --status"},
		{[]string{one, five}, Warn, "memory of each other over PCIe alone: " + one + " and " + five + "; up to 2 links up a card; only 0 of 2 at " + five, "nvidia-smi nvlink --status"},
		{[]string{three, five}, OK, "memory of each other over PCIe alone: " + three + " and " + five + "; none of 2 links up at " + five, ""},
		{[]string{one, lost, two}, Warn, "not known: nvml: NVLinks of " + lost + ": Not Found (6); NVLink between " + one + " and " + two + "; up to 2 links up a card; only 1 of 2 at " + two,
			"nvidia-smi -q -i " + lost + " and dmesg's Xid lines: a lost card comes back by its reset or a reboot"},
		{[]string{lost, four}, Warn, "not known: nvml: NVLinks of " + lost + ": Not Found (6)", "nvidia-smi -q -i " + lost + " and dmesg's Xid lines: a lost card comes back by its reset or a reboot"},
	} {
		if f := joined(c.buses, l); f.Name != "NVLink" || f.State != c.state || f.Figure != c.figure || f.Mend != c.mend {
			t.Errorf("%+v, want %+v", f, c)
		}
	}
}

// TestNVLinkOfAMachine: cards are found by the driver's files; one alone has no pair.
func TestNVLinkOfAMachine(t *testing.T) {
	t.Setenv(nvml.Variable, nvmltest.Library(t))
	files := map[string]string{"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: a GPU"}
	look := func() []Finding { return (&examiner{machine{tree(t, files)}, Config{}, t.Context()}).nvlink() }
	if all := look(); len(all) != 0 {
		t.Errorf("of one card: %+v", all)
	}
	files["proc/driver/nvidia/gpus/0000:03:00.0/information"] = "Model: a GPU"
	if f := one(t, look(), nvlinkName, ""); f.State != OK || f.Figure != "memory of each other over PCIe alone: 0000:01:00.0 and 0000:03:00.0; up to 2 links up a card" {
		t.Errorf("%+v", f)
	}
}

// switched are cards that all have NVLink to each other but the last.
type switched struct{ last, split string }

func (switched) Links(string) (int, int, error) { return 18, 18, nil }
func (s switched) Between(one, other string) (nvml.Way, error) {
	if one == s.split {
		return nvml.Way{}, errors.New("no answer")
	}
	return nvml.Way{NVLink: one != s.last && other != s.last, Peer: true}, nil
}

// TestManyCards: a host with eight cards has 28 pairs, which are counted.
func TestManyCards(t *testing.T) {
	var buses []string
	for i := range 8 {
		buses = append(buses, fmt.Sprintf("0000:%02x:00.0", i+1))
	}
	if f := joined(buses, switched{}); f.State != OK || f.Figure != "NVLink between all 28 pairs; up to 18 links up a card" {
		t.Errorf("%+v", f)
	}
	if f := joined(buses, switched{last: buses[7]}); f.State != OK || f.Figure != "NVLink between 21 of 28 pairs; memory of each other over PCIe alone: 7 of 28 pairs; up to 18 links up a card" {
		t.Errorf("%+v", f)
	}
	if f := joined(buses[:3], switched{split: buses[1]}); f.State != Warn || f.Figure != "not known: no answer; NVLink between "+buses[0]+" and "+buses[1]+", "+buses[0]+" and "+buses[2]+"; up to 18 links up a card" || f.Mend == "" {
		t.Errorf("of a pair that is not known: %+v", f)
	}
}
