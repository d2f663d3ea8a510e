package fan

import (
	"encoding/json"
	"fmt"
	"io"
	"net"

	"psrt/sched/psmsg"
)

// order is what a child is told; one is answered before the next.
type order struct {
	Do string // host, sink, serve, stop (server); send, push (workers)

	Address string // of the other side; to listen at
	Token   []byte
	Config  Config
	Mode    string
	Workers int
	Millis  int64 // of a measurement
}

// answer is what a child says.
type answer struct {
	Err     string
	Address string
	Bytes   int64 // moved while it was measured
	Nanos   int64
	CPU     float64 // seconds, since the order before

	PerWorker []int64
	Pushes    uint64 // all that were ever acknowledged
	Idle      []float64
	Busy      []float64 // pulls, us: p50, p99
	Sum       float64   // that each element of the vector holds
	Resent    uint64
	FanIn     []psmsg.FanInStats
}

// Serve is a child's body: it does what it is told until in ends.
func Serve(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	c := &childSide{}
	defer c.close()
	for {
		var o order
		if err := from.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("fan: next order: %w", err)
		}
		a, err := c.do(o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := to.Encode(a); err != nil {
			return err
		}
	}
}

// childSide is one of both children, between orders.
type childSide struct {
	sink    net.Listener
	serving *serving
}

func (c *childSide) do(o order) (a answer, err error) {
	switch o.Do {
	case "sink":
		return c.listen(o)
	case "send":
		return send(o)
	case "serve":
		if c.serving != nil {
			return a, fmt.Errorf("fan: a server runs already")
		}
		c.serving, a.Address, err = serve(o)
		return a, err
	case "stop":
		return c.stop()
	case "push":
		return push(o)
	}
	return a, fmt.Errorf("fan: no order %q", o.Do)
}

func (c *childSide) close() {
	if c.sink != nil {
		c.sink.Close()
	}
	if c.serving != nil {
		c.serving.close()
	}
}
