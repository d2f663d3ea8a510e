package server

import (
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// pacedLink is a link with a rate and a queue, which a copy shares with others.
type pacedLink struct {
	rate   float64 // bytes/s
	base   int64   // nanoseconds both ways, without a queue
	others float64 // share of the rate that others send, whatever is queued
	limit  float64 // bytes in the queue, which greedy others keep there
	own    bool    // they are the ops of the copy's group
	jitter func() int64
}

// run copies for so many seconds over a link that others use in the middle third, and
// returns what went over in each third, and the mean queue there in nanoseconds.
func (k *pacedLink) run(seconds float64) (bytes [3]float64, queue [3]float64) {
	p := newPace()
	const step = 100_000 // nanoseconds
	type onWay struct {
		item uint64
		at   int64
	}
	var way []onWay
	var item uint64
	queued := 0.0 // bytes at the link
	n := int64(seconds * 1e9 / step)
	count := [3]float64{}
	for i := range n {
		now, third := i*step, int(3*i/n)
		if queued -= k.rate * step / 1e9; queued < 0 {
			queued = 0
		}
		if third == 1 {
			if k.limit > queued {
				if k.own {
					item++
					p.op(item, int(k.limit-queued))
				}
				queued = k.limit
			}
			queued += k.others * k.rate * step / 1e9
		}
		for len(way) > 0 && way[0].at <= now {
			p.arrived(way[0].item, now, 4<<20)
			way = way[1:]
		}
		for float64(p.out) < p.window {
			item++
			size := p.item()
			queued += float64(size)
			p.sent(item, size, now)
			at := now + k.base + int64(queued/k.rate*1e9)
			if k.jitter != nil {
				at += k.jitter()
			}
			if len(way) > 0 {
				at = max(at, way[len(way)-1].at)
			}
			way = append(way, onWay{item, at})
			bytes[third] += float64(size)
		}
		queue[third] += queued / k.rate * 1e9
		count[third]++
	}
	for i := range queue {
		queue[i] /= count[i]
	}
	return bytes, queue
}

// A copy fills a link that nobody else uses, with little of a queue; it gives way to
// others, and ends although they fill the link.
func TestPace(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 5))
	for _, c := range []struct {
		name string
		link pacedLink
	}{
		{"100 Mbit/s", pacedLink{rate: 12.5e6, base: 300_000}},
		{"100 Mbit/s, a busy joiner", pacedLink{rate: 12.5e6, base: 300_000, jitter: func() int64 { return r.Int64N(4_000_000) }}},
		{"1 Gbit/s", pacedLink{rate: 125e6, base: 300_000}},
		{"10 Gbit/s", pacedLink{rate: 1.25e9, base: 200_000, jitter: func() int64 { return r.Int64N(1_000_000) }}},
		{"1 Gbit/s, far", pacedLink{rate: 125e6, base: 20_000_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const seconds = 12
			whole := c.link.rate * seconds / 3
			idle := c.link
			bytes, queue := idle.run(seconds)
			// The busy joiner's copy has .916 on average, and .006 is the deviation.
			if bytes[1] < 0.88*whole || queue[1] > 8e6 && queue[1] > 2*float64(c.link.base) {
				t.Errorf("alone it moves %.2f of what the link can, with a queue of %.1f ms", bytes[1]/whole, queue[1]/1e6)
			}
			most := c.link
			most.others = 0.7
			bytes, queue = most.run(seconds)
			if bytes[1] < 0.15*whole || queue[1] > 20e6 && queue[1] > 2*float64(c.link.base) {
				t.Errorf("beside others' 0.7 of the link it moves %.2f, with a queue of %.1f ms", bytes[1]/whole, queue[1]/1e6)
			}
			if bytes[2] < 0.85*whole {
				t.Errorf("afterwards it moves %.2f of what the link can", bytes[2]/whole)
			}
			full := c.link
			full.limit = 0.04 * c.link.rate // 40 ms
			bytes, queue = full.run(seconds)
			if share := bytes[1] / whole; share < 0.04 || share > 0.4 {
				t.Errorf("where others keep 40 ms in the queue it moves %.2f of what the link can", share)
			}
			t.Logf("queue %.1f ms", queue[1]/1e6)
			// However long it takes: a queue of ops is not how long the link takes.
			full.own = true
			bytes, _ = full.run(5 * seconds)
			if share := bytes[1] / (5 * whole); share < 0.04 || share > 0.3 {
				t.Errorf("where the group's own ops keep 40 ms in the queue it moves %.2f of what the link can", share)
			}
			t.Logf("beside its group's ops %.2f", bytes[1]/(5*whole))
		})
	}
}
