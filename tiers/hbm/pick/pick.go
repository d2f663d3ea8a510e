package pick

import (
	"fmt"
	"slices"
	"strings"

	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// Kinds of devices: a GPU, and its twin in the host's memory.
const (
	GPU  = gpu.KindGPU
	Host = "host"
	// Library begins the kind that is an accelerator of somebody's: the file of its
	// library follows.
	Library = gpu.KindLibrary
)

// Device says where a server keeps the rows of coming batches, nearer than memory.
type Device struct {
	// Kind is one of those above, or the driver's number of a GPU; or several behind commas, among which
	// each server's lanes are dealt.
	Kind string `json:"kind"`
	// Bytes are one server's, of all its devices together.
	Bytes int64 `json:"bytes"`
	// Journal are one server's, of the host's memory: of what was done on its devices since the
	// tiers below had it. 0: none, and a server ends with its device.
	Journal int64  `json:"journal,omitempty"`
	Policy  string `json:"policy,omitempty"`
}

// Server is who asks for its device.
type Server struct {
	Index int // among those that take devices in turns
	Node  int // NUMA node of a twin's memory, -1 any
	// Say gets a line that tells how unlike devices share lanes.
	Say func(string)
	// Warn is told of devices that are not there; nil: Say is told.
	Warn func(string)
}

// Kinds are one for each device of a server.
func (d *Device) Kinds() []string {
	if d == nil {
		return nil
	}
	return strings.Split(d.Kind, ",")
}

// Validate refuses what no server of so many lanes has; flag says how many it has.
func (d *Device) Validate(lanes int, flag string) error {
	kinds := d.Kinds()
	for i, kind := range kinds {
		switch {
		case !Named(kind):
			return fmt.Errorf("device %q for rows of coming batches, want %q, %q, the number of a GPU, or %q and the file of an accelerator's library", kind, GPU, Host, Library)
		case kind != GPU && kind != Host && !strings.HasPrefix(kind, Library) && slices.Contains(kinds[:i], kind):
			return fmt.Errorf("GPU %s is named twice for rows of coming batches: name each once", kind)
		}
	}
	switch {
	case d == nil:
		return nil
	case len(kinds) > lanes:
		return fmt.Errorf("%d devices for rows of coming batches, but servers of %d lanes, whose rows lie on one each: give %s %d", len(kinds), lanes, flag, len(kinds))
	case d.Bytes <= 0:
		return fmt.Errorf("%d bytes on a device: give --hbm-budget some", d.Bytes)
	case d.Journal < 0:
		return fmt.Errorf("a journal of %d bytes of rows on a device: give --hbm-journal some, or 0 for none", d.Journal)
	}
	return nil
}

// Named says whether a kind is a device's name.
func Named(kind string) bool { return kind == Host || gpu.Named(kind) }

// one is a device of a server for so many bytes; turn counts those of its kind, of all servers.
func one(kind string, node, turn int, bytes int64) (hbm.Device, func(), error) {
	if kind == Host {
		return hbm.Host{Node: node}, func() {}, nil
	}
	return gpu.Choose(kind, turn, bytes)
}

// Open gives a server's device, until release is called. Where there is none of those named it is
// nil, and says so; those of several that there are are used. A nil Device has none.
func (d *Device) Open(s Server) (_ hbm.Device, release func()) {
	if s.Warn == nil {
		s.Warn = s.Say
	}
	kinds := d.Kinds()
	var found []hbm.Device
	var held []func()
	var refused error
	for i, kind := range kinds {
		alike, before := 0, 0
		for k, other := range kinds {
			if other == kind {
				alike++
				if k < i {
					before++
				}
			}
		}
		device, release, err := one(kind, s.Node, s.Index*alike+before, d.Bytes/int64(len(kinds)))
		if err != nil {
			if refused == nil {
				refused = err
			}
			if len(kinds) > 1 {
				s.Warn(fmt.Sprintf("server %d does without device %q: %v", s.Index, kind, err))
			}
			continue
		}
		found, held = append(found, device), append(held, release)
	}
	release = func() {
		for _, r := range held {
			r()
		}
	}
	switch {
	case len(found) > 1:
		return cardsOf(found, d.Bytes, s), release
	case len(found) == 1:
		return found[0], release
	case refused != nil:
		s.Warn(fmt.Sprintf("server %d keeps all rows in the tiers below: %v; --hbm-device %s would take memory of the host", s.Index, refused, Host))
	}
	return nil, release
}

// cardsOf has unlike devices get lanes by their speed, and says so.
func cardsOf(all []hbm.Device, bytes int64, s Server) *hbm.Cards {
	speeds := hbm.Speeds(all, bytes)
	if slices.Min(speeds) != slices.Max(speeds) {
		said := make([]string, len(all))
		for i, d := range all {
			said[i] = fmt.Sprintf("%s: %.3g", d.Name(), speeds[i]/1e6)
		}
		s.Say(fmt.Sprintf("server %d shares lanes among unlike devices by their speed, in million rows a second: %s", s.Index, strings.Join(said, "; ")))
	}
	return hbm.NewCards(all, speeds)
}
