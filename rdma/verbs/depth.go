package verbs

import (
	"errors"
	"fmt"
)

// inlines are what a request may carry inline, the most first. More than 256 is
// of no use: from 220 on the device's fetch is cheaper (autoInline).
var inlines = []int{256, autoInline, 128, 64, 0}

// probeDepth finds by trial how much a request may carry inline and how deep a
// queue pair may be at the same time: devices refuse what is too much, and none
// tells beforehand. Cards bound the bytes of a send queue, in which inline
// payload lies: where 32768 requests are announced, 256 bytes of payload leave
// room for 4096. Shallower than enough, less goes inline instead.
func (d *Domain) probeDepth() (inline, depth int, err error) {
	const enough = 1024
	cq, err := d.ctx.NewCQ(4)
	if err != nil {
		return 0, 0, err
	}
	most := max(min(int(d.attr.MaxQPWR)-internalWRs, maxDepth), 1)
	inline, depth, err = deepest(most, min(enough, most), func(depth, inline int) error {
		qp, err := d.ctx.NewQP(cq, nil, depth+internalWRs, depth, inline)
		if err != nil {
			return err
		}
		return qp.Close()
	})
	if err != nil {
		err = fmt.Errorf("verbs: %s takes no queue pair: %w", d.cfg.Device, err)
	}
	return inline, depth, errors.Join(err, cq.Close())
}

// deepest tries depths from most down to enough with each of inlines, and down
// to 1 without any; err is that of the last.
func deepest(most, enough int, try func(depth, inline int) error) (inline, depth int, err error) {
	for _, inline = range inlines {
		least := enough
		if inline == 0 {
			least = 1
		}
		for depth = most; depth >= least; depth /= 2 {
			if err = try(depth, inline); err == nil {
				return inline, depth, nil
			}
		}
	}
	return 0, 0, err
}
