package discover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Overrides are the user's flags; the zero value has none.
type Overrides struct {
	Devices  []Selector // --device
	Port     int        // --port, of every device named without one; 0: any
	PinGID   bool       // --gid-index was given
	GIDIndex int
}

// Selector is one NAME[:port] of --device.
type Selector struct {
	Name string
	Port int // 0: any
}

func (s Selector) String() string {
	if s.Port == 0 {
		return s.Name
	}
	return s.Name + ":" + strconv.Itoa(s.Port)
}

// ParseDevices reads the value of --device: NAME[:port], several with commas.
func ParseDevices(text string) ([]Selector, error) {
	var list []Selector
	for part := range strings.SplitSeq(text, ",") {
		name, port, has := strings.Cut(strings.TrimSpace(part), ":")
		s := Selector{Name: name}
		var err error
		if has {
			s.Port, err = strconv.Atoi(port)
		}
		if name == "" || strings.ContainsAny(name, "/ \t") || err != nil || has && (s.Port < 1 || s.Port > 255) {
			return nil, &OverrideError{fmt.Sprintf("--device %.60q: want NAME or NAME:port, like mlx5_0:1, several with commas", text)}
		}
		if slices.ContainsFunc(list, func(o Selector) bool { return o.Name == name && (o.Port == s.Port || o.Port == 0 || s.Port == 0) }) {
			return nil, &OverrideError{fmt.Sprintf("--device %.60q names %s twice", text, name)}
		}
		list = append(list, s)
	}
	return list, nil
}

func (o Overrides) String() string {
	var parts []string
	if len(o.Devices) > 0 {
		var names []string
		for _, s := range o.Devices {
			names = append(names, s.String())
		}
		parts = append(parts, "--device "+strings.Join(names, ","))
	}
	if o.Port != 0 {
		parts = append(parts, fmt.Sprintf("--port %d", o.Port))
	}
	if o.PinGID {
		parts = append(parts, fmt.Sprintf("--gid-index %d", o.GIDIndex))
	}
	return strings.Join(parts, " ")
}

// names says whether a device may be used.
func (o Overrides) names(device string) bool {
	return len(o.Devices) == 0 || slices.ContainsFunc(o.Devices, func(s Selector) bool { return s.Name == device })
}

// wantsPort says whether a port of a device that may be used may be used.
func (o Overrides) wantsPort(device string, port int) bool {
	if len(o.Devices) == 0 {
		return o.Port == 0 || o.Port == port
	}
	return slices.ContainsFunc(o.Devices, func(s Selector) bool {
		want := s.Port
		if want == 0 {
			want = o.Port
		}
		return s.Name == device && (want == 0 || want == port)
	})
}

// check compares the flags with what exists.
func (o Overrides) check(h Host) error {
	for _, s := range o.Devices {
		at := slices.IndexFunc(h.Devices, func(d Device) bool { return d.Name == s.Name })
		if at < 0 {
			return &OverrideError{fmt.Sprintf("--device %s: no such device: this host has %s; names are compared whole", s, deviceNames(h))}
		}
		if s.Port != 0 && o.Port != 0 && s.Port != o.Port {
			return &OverrideError{fmt.Sprintf("--device %s and --port %d contradict each other: drop one", s, o.Port)}
		}
		if s.Port != 0 && !h.Devices[at].has(s.Port) {
			return &OverrideError{fmt.Sprintf("--device %s: %s has %s", s, s.Name, h.Devices[at].portNumbers())}
		}
	}
	if o.Port != 0 && len(h.Devices) > 0 {
		var have []string
		for _, d := range h.Devices {
			if !o.names(d.Name) {
				continue
			}
			if d.has(o.Port) {
				return o.checkGID(h)
			}
			have = append(have, d.Name+" has "+d.portNumbers())
		}
		return &OverrideError{fmt.Sprintf("--port %d: %s", o.Port, strings.Join(have, ", "))}
	}
	return o.checkGID(h)
}

// checkGID wants the index on one of the ports that may be used.
func (o Overrides) checkGID(h Host) error {
	if !o.PinGID {
		return nil
	}
	var have []string
	for _, d := range h.Devices {
		for _, p := range d.Ports {
			if !o.names(d.Name) || !o.wantsPort(d.Name, p.Number) {
				continue
			}
			if slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Index == o.GIDIndex }) {
				return nil
			}
			have = append(have, fmt.Sprintf("%s port %d has %s", d.Name, p.Number, gidTable(p)))
		}
	}
	if len(have) == 0 {
		return nil // no device at all: told as such
	}
	return &OverrideError{fmt.Sprintf("--gid-index %d: %s", o.GIDIndex, strings.Join(have, "; "))}
}

// met demands that every device named became a rail.
func (o Overrides) met(c Choice) error {
	for _, s := range o.Devices {
		if slices.ContainsFunc(c.Rails, func(r Rail) bool { return r.Device == s.Name && (s.Port == 0 || s.Port == r.Port) }) {
			continue
		}
		var why []string
		for _, r := range c.Rejected {
			if r.Device == s.Name && (s.Port == 0 || r.Port == 0 || s.Port == r.Port) {
				why = append(why, r.String())
			}
		}
		return &OverrideError{fmt.Sprintf("--device %s cannot be used: %s", s, strings.Join(why, "; "))}
	}
	return nil
}

func (d Device) has(port int) bool {
	return slices.ContainsFunc(d.Ports, func(p Port) bool { return p.Number == port })
}
