package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/bench/cable"
)

// Every process has a cable of its own to the switch, numbered on and on: a server that
// is started again gets another, because the kernel takes its predecessor's away when
// it gets to it.
func address(cable int) string { return fmt.Sprintf("10.79.%d.2", cable) }
func gateway(cable int) string { return fmt.Sprintf("10.79.%d.1", cable) }

// maxCables is what the addresses have room for.
const maxCables = 250

// end sets up this process's end of a cable.
func (c *Config) end(ctx context.Context, number int) error {
	return errors.Join(cable.End(ctx, address(number), gateway(number)), cable.Pieces(ctx, c.RateBits), cable.SetCongestion(c.Congestion))
}

// cableOrder has the switch lay a cable.
type cableOrder struct {
	Config Config
	Cable  int
	PID    int
}

type cableSays struct{ Err string }

// serveSwitch is the switch's body.
func serveSwitch(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	if err := cable.Forward(); err != nil {
		return err
	}
	for {
		var o cableOrder
		if from.Decode(&o) != nil {
			return nil // the station's end is the end
		}
		var says cableSays
		port := fmt.Sprintf("port%d", o.Cable)
		if err := errors.Join(cable.Lay(ctx, port, gateway(o.Cable), o.PID), cable.Rate(ctx, port, o.Config.RateBits, o.Config.QueueBytes)); err != nil {
			says.Err = err.Error()
		}
		if err := to.Encode(says); err != nil {
			return err
		}
	}
}
