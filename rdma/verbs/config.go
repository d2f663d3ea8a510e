package verbs

import (
	"fmt"
	"time"

	"psrt/rdma"
)

// Config of a Domain.
type Config struct {
	// Device is the exact name of the device, as ibv_devices lists it.
	Device string
	// Port of the device; 0: the first active one.
	Port int
	// MayBeDown: a port that is not active now is no error; its link may come
	// up later.
	MayBeDown bool
	// PinGID makes GIDIndex the only GID of the port that is used. Else the pair
	// of GIDs that suits both peers is found when an endpoint connects.
	PinGID   bool
	GIDIndex int
	// TrafficClass is put into every packet (DSCP << 2 | ECN), for switches
	// that give RDMA a lossless class.
	TrafficClass uint8
	// SpinMicros is how long Queue.Wait polls before it blocks; 0 means 20.
	SpinMicros int
	// OnEvent is told of the device's asynchronous events, in words; nil: nobody
	// is. It is called by the domain's own goroutine and must not block.
	OnEvent func(text string) `json:"-"`
	// OnPanic is told of a panic in a goroutine of the domain's own; nil: it ends the
	// process.
	OnPanic func(any) `json:"-"`
}

const (
	defaultOpTimeout = 5 * time.Second
	minOpTimeout     = 10 * time.Millisecond
	maxOpTimeout     = 10 * time.Minute
	defaultSpin      = 20 // us
	maxSpin          = 10000

	// maxDepth bounds what a device's own limit does not.
	maxDepth = 1 << 14
	// maxMessage of verbs is 2 GiB; a power of two below it is easier to cut by.
	maxMessage = 1 << 30
	// autoInline: requests up to here go inline by themselves. Beyond it the
	// device's fetch is cheaper than the copy into the queue.
	autoInline = 220
)

func (c *Config) check() error {
	switch {
	case c.Device == "":
		return fmt.Errorf("verbs: no device named: %w", rdma.ErrInvalid)
	case c.Port < 0 || c.Port > 255:
		return fmt.Errorf("verbs: %s: port %d: %w; ports are numbered from 1, 0 takes the first active one", c.Device, c.Port, rdma.ErrInvalid)
	case c.PinGID && (c.GIDIndex < 0 || c.GIDIndex > 255):
		return fmt.Errorf("verbs: %s: GID index %d: %w; use 0 to 255, or none to have it found", c.Device, c.GIDIndex, rdma.ErrInvalid)
	case c.SpinMicros < 0 || c.SpinMicros > maxSpin:
		return fmt.Errorf("verbs: %s: %d us of spinning: %w; use 1 to %d, or 0 for %d", c.Device, c.SpinMicros, rdma.ErrInvalid, maxSpin, defaultSpin)
	}
	return nil
}
