package train

import (
	"fmt"
	"slices"
	"strings"

	"psrt/sched/server"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// Kinds of devices: a GPU, and its twin in the host's memory.
const (
	DeviceGPU  = gpu.KindGPU
	DeviceHost = "host"
	// DeviceLibrary begins the kind that is an accelerator of somebody's: the file of its
	// library follows.
	DeviceLibrary = gpu.KindLibrary
)

// Device says where servers keep the rows of coming batches, nearer than memory.
type Device struct {
	// Kind is one of those above, or the driver's number of a GPU; or several behind commas, among which
	// each server's lanes are dealt.
	Kind string `json:"kind"`
	// Bytes are one server's, of all its devices together.
	Bytes  int64  `json:"bytes"`
	Policy string `json:"policy,omitempty"`
}

// Kinds are one for each device of a server.
func (d *Device) Kinds() []string {
	if d == nil {
		return nil
	}
	return strings.Split(d.Kind, ",")
}

// Validate refuses what no server of so many lanes has.
func (d *Device) Validate(lanes int) error {
	kinds := d.Kinds()
	for i, kind := range kinds {
		switch {
		case !isDevice(kind):
			return fmt.Errorf("train: device %q for rows of coming batches, want %q, %q, the number of a GPU, or %q and the file of an accelerator's library", kind, DeviceGPU, DeviceHost, DeviceLibrary)
		case kind != DeviceGPU && kind != DeviceHost && !strings.HasPrefix(kind, DeviceLibrary) && slices.Contains(kinds[:i], kind):
			return fmt.Errorf("train: GPU %s is named twice for rows of coming batches: name each once", kind)
		}
	}
	switch {
	case d == nil:
		return nil
	case len(kinds) > lanes:
		return fmt.Errorf("train: %d devices for rows of coming batches, but servers of %d lanes, whose rows lie on one each: give --lanes %d", len(kinds), lanes, len(kinds))
	case d.Bytes <= 0:
		return fmt.Errorf("train: %d bytes on a device: give --hbm-budget some", d.Bytes)
	}
	return nil
}

// isDevice says whether a kind is a device's name.
func isDevice(kind string) bool { return kind == DeviceHost || gpu.Named(kind) }

// pick is a device of a server for so many bytes; turn counts those of its kind, of all servers.
func pick(kind string, rank Rank, turn int, bytes int64) (hbm.Device, func(), error) {
	if kind == DeviceHost {
		return hbm.Host{Node: rank.Node}, func() {}, nil
	}
	return gpu.Choose(kind, turn, bytes)
}

// forServer is a server's form, until release is called. Where there is none of its devices it is
// nil, and says so; those of several that there are are used.
func (d *Device) forServer(j *Job, rank Rank) (_ *server.Device, release func()) {
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
		device, release, err := pick(kind, rank, rank.Index*alike+before, d.Bytes/int64(len(kinds)))
		if err != nil {
			if refused == nil {
				refused = err
			}
			if len(kinds) > 1 {
				rank.emit(Event{Note: fmt.Sprintf("server %d does without device %q: %v", rank.Index, kind, err)})
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
	if len(found) == 0 {
		if refused != nil {
			rank.emit(Event{Note: fmt.Sprintf("server %d keeps all rows in the tiers below: %v; --hbm-device %s would take memory of the host", rank.Index, refused, DeviceHost)})
		}
		return nil, release
	}
	device := found[0]
	if len(found) > 1 {
		device = cardsOf(found, d.Bytes, rank)
	}
	return &server.Device{Device: device, MaxBytes: d.Bytes, Policy: d.Policy,
		BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}, release
}

// cardsOf has unlike devices get lanes by their speed, and says so.
func cardsOf(all []hbm.Device, bytes int64, rank Rank) *hbm.Cards {
	speeds := hbm.Speeds(all, bytes)
	if slices.Min(speeds) != slices.Max(speeds) {
		said := make([]string, len(all))
		for i, d := range all {
			said[i] = fmt.Sprintf("%s: %.3g", d.Name(), speeds[i]/1e6)
		}
		rank.emit(Event{Note: fmt.Sprintf("server %d shares lanes among unlike devices by their speed, in million rows a second: %s", rank.Index, strings.Join(said, "; "))})
	}
	return hbm.NewCards(all, speeds)
}
