package fanin

import "slices"

// naive is the rule of doc.go once more: without rings, counters or an
// estimator, each answer counted anew from a plain list. It takes valid calls
// only.
type naive struct {
	cfg       Config
	rate, rtt int64
	now       int64
	all       []*nTransfer
	order     [3][]int // workers in turn: pulls, pushes, on trial
	deficit   [2]map[int]int64
	silent    map[int]standing
	owing     []int // the longest silent first, late ones too
	paced     int64
	trial     map[int]bool
	heard     map[int]int64
	ahead     int64
	word      map[int]Word
	given     [2]int64         // bytes granted, by kind
	again     [2]map[int]int64 // at which of these a worker that is behind may go first
	passed    [2]map[int]bool
	answers   int64
}

type nTransfer struct {
	worker                int
	id                    uint64
	kind                  Kind
	size, granted, landed int64
}

func newNaive(cfg Config) *naive {
	return &naive{cfg: cfg.withDefaults(), deficit: [2]map[int]int64{{}, {}},
		silent: map[int]standing{}, trial: map[int]bool{}, heard: map[int]int64{},
		word: map[int]Word{}, again: [2]map[int]int64{{}, {}}, passed: [2]map[int]bool{{}, {}}}
}

func (n *naive) chunk() int64 { return max(Chunk(n.rate), n.cfg.LeastChunk) }

func (n *naive) window() int64 {
	c := n.chunk()
	return c*Chunks(n.rate, n.rtt, c) + min(n.answers, n.cfg.BurstBytes)
}

func (n *naive) owed(which func(worker int) bool) (sum int64) {
	for _, t := range n.all {
		if which(t.worker) {
			sum += t.granted - t.landed
		}
	}
	return sum
}

func (n *naive) owedBy(w int) int64 { return n.owed(func(v int) bool { return v == w }) }

func (n *naive) outstanding() int64 {
	return n.owed(func(w int) bool { return n.silent[w] == inWindow })
}

func (n *naive) next(w int, kinds ...Kind) *nTransfer {
	for _, k := range kinds {
		for _, t := range n.all {
			if t.worker == w && t.kind == k && t.granted < t.size {
				return t
			}
		}
	}
	return nil
}

func (n *naive) find(w int, id uint64) *nTransfer {
	for _, t := range n.all {
		if t.worker == w && t.id == id {
			return t
		}
	}
	return nil
}

func (n *naive) tidy() {
	n.all = slices.DeleteFunc(n.all, func(t *nTransfer) bool { return t.landed == t.size })
	for i := range n.order {
		belongs := func(w int) bool {
			if n.silent[w] != inWindow {
				return false
			}
			if i == 2 {
				return n.trial[w] && n.next(w, Pull, Push) != nil
			}
			return !n.trial[w] && n.next(w, Kind(i)) != nil
		}
		n.order[i] = slices.DeleteFunc(n.order[i], func(w int) bool {
			if belongs(w) {
				return false
			}
			if i < 2 {
				n.deficit[i][w], n.passed[i][w] = 0, false
			}
			return true
		})
		for w := range n.cfg.Workers {
			if !belongs(w) || slices.Contains(n.order[i], w) {
				continue
			}
			if i < 2 && n.word[w] == Behind && n.given[i] >= n.again[i][w] {
				n.again[i][w] = n.given[i] + int64(len(n.order[i]))*max(n.chunk(), 8192)
				n.order[i] = append([]int{w}, n.order[i]...)
				continue
			}
			n.order[i] = append(n.order[i], w)
		}
	}
}

func (n *naive) announce(w int, id uint64, size int64, k Kind, now int64) {
	n.now = now
	n.all = append(n.all, &nTransfer{worker: w, id: id, kind: k, size: size})
	n.tidy()
}

func (n *naive) arrived(w int, id uint64, bytes, now int64) bool {
	n.now = now
	t := n.find(w, id)
	t.landed += bytes
	switch {
	case n.silent[w] == aside:
		n.trial[w] = true
	case n.silent[w] == inWindow && n.owedBy(w) == 0:
		n.trial[w] = false
	}
	n.silent[w] = inWindow
	n.hear(w)
	n.tidy()
	return t.landed == t.size
}

func (n *naive) say(w int, word Word) {
	if n.word[w] != word {
		n.word[w] = word
		n.passed[0][w], n.passed[1][w] = false, false
	}
}

// yield: a hot worker in front passes once, if a worker that is not hot waits.
func (n *naive) yield(ring int) {
	hot := func(w int) bool { return n.word[w] == Hot }
	for {
		order := n.order[ring]
		w := order[0]
		if !hot(w) || n.passed[ring][w] || !slices.ContainsFunc(order, func(v int) bool { return !hot(v) }) {
			return
		}
		n.passed[ring][w] = true
		n.order[ring] = append(order[1:], w)
	}
}

func (n *naive) hear(w int) {
	n.heard[w] = n.now
	n.owing = slices.DeleteFunc(n.owing, func(v int) bool { return v == w })
	if n.owedBy(w) > 0 {
		n.owing = append(n.owing, w)
	}
}

func (n *naive) judge() {
	patience := (n.rtt + n.window()*1e9/n.rate) * 3 / 2
	silence := max(n.cfg.SilenceNanos, 4*patience)
	for _, w := range n.owing {
		if n.silent[w] == late && n.now-n.heard[w] >= silence {
			n.silent[w] = aside
		}
	}
	for _, w := range n.owing {
		if n.silent[w] != inWindow {
			continue
		}
		lent := n.owed(func(v int) bool { return n.silent[v] == late })
		switch quiet := n.now - n.heard[w]; {
		case quiet >= silence:
			n.silent[w] = aside
		case quiet >= patience && lent+n.owedBy(w) <= n.window():
			n.silent[w] = late
		default:
			return
		}
	}
}

func (n *naive) cancel(w int, id uint64, now int64) int64 {
	n.now = now
	t := n.find(w, id)
	t.size = t.granted
	n.tidy()
	return t.granted - t.landed
}

func (n *naive) leave(w int, now int64) {
	n.now = now
	n.all = slices.DeleteFunc(n.all, func(t *nTransfer) bool { return t.worker == w })
	n.silent[w], n.trial[w], n.word[w] = inWindow, false, Plain
	n.again[0][w], n.again[1][w] = 0, 0
	n.hear(w)
	n.tidy()
}

func (n *naive) grants(now int64) (granted []Grant) {
	n.now = now
	n.judge()
	n.tidy()
	chunk := n.chunk()
	size := func(t *nTransfer) int64 {
		rest := t.size - t.granted
		if rest > chunk && rest < 2*chunk {
			return min((rest/2+63)/64*64, chunk)
		}
		return min(rest, chunk)
	}
	for {
		ring := 1
		if len(n.order[0]) > 0 && (len(n.order[1]) == 0 || n.ahead < n.cfg.PullRun) {
			ring = 0
		}
		if len(n.order[2]) > 0 && n.owed(func(w int) bool { return n.trial[w] && n.silent[w] == inWindow }) == 0 {
			ring = 2
		}
		if len(n.order[ring]) == 0 {
			return granted
		}
		if ring < 2 {
			n.yield(ring)
		}
		w := n.order[ring][0]
		t := n.next(w, []Kind{Pull, Push}...)
		if ring < 2 {
			t = n.next(w, Kind(ring))
		}
		b := size(t)
		if n.outstanding()+b > n.window() {
			return granted
		}
		// At 1.25 x the rate, all up to the grant has passed at to; a burst is
		// what may be passed in advance.
		to := max(n.paced, now) + int64(float64(b)*0.8e9/float64(n.rate))
		if to-int64(float64(n.cfg.BurstBytes)*0.8e9/float64(n.rate)) > now {
			return granted
		}
		n.paced = to
		first := n.owedBy(w) == 0
		granted = append(granted, Grant{w, t.id, t.granted, b})
		t.granted += b
		if first {
			n.hear(w)
		}
		if ring == 2 {
			n.order[2] = append(n.order[2][1:], w)
			n.tidy()
			continue
		}
		n.given[ring] += b
		n.ahead = map[bool]int64{true: n.ahead + b, false: 0}[ring == 0 && len(n.order[1]) > 0]
		if n.deficit[ring][w] < b {
			n.deficit[ring][w] += max(chunk, 8192)
		}
		n.deficit[ring][w] -= b
		if more := n.next(w, Kind(ring)); more == nil || n.deficit[ring][w] < size(more) {
			n.order[ring] = append(n.order[ring][1:], w)
			n.passed[ring][w] = false
		}
		n.tidy()
	}
}
