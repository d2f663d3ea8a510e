package fan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/bench/cable"
)

// Names and addresses. The namespaces are this run's own, so they meet nobody
// else's.
const (
	portWorkers = "workers"
	portServer  = "server" // of the switch

	workerAddress = "10.78.0.2"
	workerGateway = "10.78.0.1"
	serverAddress = "10.78.1.2"
	serverGateway = "10.78.1.1"
)

// end sets up this process's end of its cable.
func end(ctx context.Context, address, gateway, congestion string) error {
	return errors.Join(cable.End(ctx, address, gateway), cable.SetCongestion(congestion))
}

// switchOrder is what the switch is told first; after it any order asks for
// what it has dropped.
type switchOrder struct {
	Config                Config
	WorkersPID, ServerPID int
}

type switchSays struct {
	Err     string
	Dropped int64
}

// serveSwitch is the switch's body.
func serveSwitch(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var o switchOrder
	if err := from.Decode(&o); err != nil {
		return fmt.Errorf("fan-in: no set-up on standard input: %w", err)
	}
	for err := connect(ctx, &o); ; {
		var s switchSays
		if err == nil {
			s.Dropped, err = dropped(ctx)
		}
		if err != nil {
			s.Err = err.Error()
		}
		if err := to.Encode(s); err != nil {
			return err
		}
		var next struct{}
		if from.Decode(&next) != nil {
			return nil // the station's end is the end
		}
	}
}

func connect(ctx context.Context, o *switchOrder) error {
	c := &o.Config
	err := errors.Join(cable.Lay(ctx, portWorkers, workerGateway, o.WorkersPID), cable.Lay(ctx, portServer, serverGateway, o.ServerPID),
		cable.Rate(ctx, portServer, c.RateBits, c.QueueBytes))
	if err == nil && c.Delay > 0 {
		err = cable.Delay(ctx, portWorkers, c.Delay)
	}
	return errors.Join(err, cable.Forward())
}

func dropped(ctx context.Context) (int64, error) {
	out, err := cable.Command(ctx, "", "tc", "-s", "-j", "qdisc", "show", "dev", portServer)
	if err != nil {
		return 0, err
	}
	return parseDropped([]byte(out))
}

func parseDropped(text []byte) (int64, error) {
	var list []struct {
		Kind  string `json:"kind"`
		Drops int64  `json:"drops"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("fan-in: tc -j says %.100q: %w", text, err)
	}
	for _, q := range list {
		if q.Kind == "tbf" {
			return q.Drops, nil
		}
	}
	return 0, fmt.Errorf("fan-in: the switch has lost its queue: tc -j says %.100q", text)
}
