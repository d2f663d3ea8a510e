package client

import (
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/place"
)

// Config describes one worker's client.
type Config struct {
	Worker int // 0..workers-1, the rank in the clocks
	// Any says that Worker is only a wish, at servers whose workers come and go: the
	// first server gives a number.
	Any  bool
	Map  *place.Map // who owns what; server addresses included
	Host *dial.Host
	// Timeout bounds every wait for a server, reconnecting included; 0 means
	// two minutes. In BSP it also bounds how far workers may drift apart.
	Timeout time.Duration
	// Node is the NUMA node of this worker's registered memory, -1 any.
	Node int
	// Latencies is where the client counts how long its calls take. May be nil.
	Latencies *Latencies
	// Stepped: the owner never calls what waits for servers, but Step; see step.go.
	Stepped bool
}

func (c *Config) validate() error {
	if c.Map == nil || c.Host == nil {
		return fmt.Errorf("client: Config.Map and Config.Host must be set")
	}
	if c.Worker < 0 {
		return fmt.Errorf("client: worker %d, want 0 or more", c.Worker)
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	return nil
}
