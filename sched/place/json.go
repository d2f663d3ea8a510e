package place

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// mapJSON is the stored form. Assignment is the global lane of each slot,
// little-endian uint16, base64 in JSON; a map written by hand may leave it out
// and gets New's.
type mapJSON struct {
	Epoch      uint64   `json:"epoch"`
	Slots      int      `json:"slots"`
	Servers    []Server `json:"servers"`
	Assignment []byte   `json:"assignment,omitempty"`
}

// MarshalJSON writes the whole map, assignment included.
func (m *Map) MarshalJSON() ([]byte, error) {
	a := make([]byte, 2*len(m.lane))
	for i, l := range m.lane {
		binary.LittleEndian.PutUint16(a[2*i:], l)
	}
	return json.Marshal(mapJSON{m.Epoch, m.Slots, m.Servers, a})
}

// UnmarshalJSON reads and checks a map.
func (m *Map) UnmarshalJSON(b []byte) error {
	var j mapJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("place: %w", err)
	}
	if len(j.Assignment) == 0 {
		n, err := New(j.Epoch, j.Slots, j.Servers)
		if err != nil {
			return err
		}
		*m = *n
		return nil
	}
	n, err := skeleton(j.Epoch, j.Slots, j.Servers)
	if err != nil {
		return err
	}
	if len(j.Assignment) != 2*n.Slots {
		return fmt.Errorf("place: map of %d slots has %d bytes of assignment, want %d", n.Slots, len(j.Assignment), 2*n.Slots)
	}
	for i := range n.lane {
		l := binary.LittleEndian.Uint16(j.Assignment[2*i:])
		if int(l) >= n.Lanes() {
			return fmt.Errorf("place: slot %d is given to lane %d of %d", i, l, n.Lanes())
		}
		n.lane[i] = l
	}
	*m = *n
	return nil
}
