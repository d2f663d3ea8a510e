package codec

import (
	"fmt"

	"psrt/sched/psmsg"
)

// Config of one run.
type Config struct {
	Keys   int // of a pull whose keys ride in the slot
	Volume int // bytes encoded in a round, of each format
	Rounds int
	Seed   uint64
}

const (
	maxKeys   = (psmsg.SlotBytes - psmsg.RequestBytes) / 8
	minVolume = 1 << 16
	maxVolume = 1 << 30 // a round ends within a second or so, and a signal is seen then
	maxRounds = 1000
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("codec: %d keys a request, want 1 to %d: more do not fit a slot of %d bytes and stay where they are", c.Keys, maxKeys, psmsg.SlotBytes)
	case c.Volume < minVolume || c.Volume > maxVolume:
		return fmt.Errorf("codec: %d bytes a round, want %d to %d", c.Volume, minVolume, maxVolume)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("codec: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	}
	return nil
}
