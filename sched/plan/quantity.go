package plan

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"psrt/csrc/decimal"
)

// Bytes is an amount such as 128GiB, 3GB or 4096.
type Bytes float64

// Rate is bytes in a second, such as 25Gbit, 100Mbit or 3GB.
type Rate float64

// Count is a number such as 500k, 60T or 1e9.
type Count float64

// Seconds is a time such as 10us.
type Seconds float64

type unit struct {
	suffix string
	factor float64
}

var (
	powers    = []unit{{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"", 1}}
	sizes     = []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}
	bitRates  = []unit{{"Kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}, {"Tbit", 1e12 / 8}}
	byteRates = []unit{{"KiB/s", 1 << 10}, {"MiB/s", 1 << 20}, {"GiB/s", 1 << 30}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}
)

func measure(text string, units []unit, like string) (float64, error) {
	for _, u := range units {
		number, isIt := strings.CutSuffix(text, u.suffix)
		if !isIt {
			continue
		}
		v, err := decimal.Float(strings.TrimSpace(number), 64)
		if err != nil {
			continue
		}
		if v *= u.factor; v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return 0, fmt.Errorf("%q: must be a number from 0 on", text)
		}
		return v, nil
	}
	return 0, fmt.Errorf("%q: write it like %s", text, like)
}

func (b *Bytes) UnmarshalYAML(n *yaml.Node) (err error) {
	*(*float64)(b), err = measure(n.Value, sizes, "128GiB")
	return at(n, err)
}

func (r *Rate) UnmarshalYAML(n *yaml.Node) (err error) {
	*(*float64)(r), err = measure(n.Value, append(bitRates, byteRates...), "25Gbit or 3GB/s")
	return at(n, err)
}

func (c *Count) UnmarshalYAML(n *yaml.Node) (err error) {
	*(*float64)(c), err = measure(n.Value, powers, "500k or 1e9")
	return at(n, err)
}

func (s *Seconds) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err == nil && d < 0 {
		err = fmt.Errorf("%q: must not be less than 0", n.Value)
	}
	*s = Seconds(d.Seconds())
	return at(n, err)
}

func at(n *yaml.Node, err error) error {
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}
