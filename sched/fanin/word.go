package fanin

// Word is what whoever watches the link says of a worker. It moves a worker's
// turns; it never makes or holds back a grant that the window allows.
type Word uint8

const (
	// Plain workers take turns as they announce.
	Plain Word = iota
	// Behind, a straggler: others wait for it. It takes the next turn when it
	// announces, at most once a round, so all of that is at most one turn for
	// each that the others have, which is its share anyhow.
	Behind
	// Hot sends far more than most. While a worker that is not waits, it takes
	// every second of its turns; so it has half the share of the others at least,
	// and all that they leave.
	Hot
	words = iota
)

func (w Word) String() string {
	if w >= words {
		return "?"
	}
	return [...]string{"plain", "behind", "hot"}[w]
}

// heard is what a word means to a worker's turns.
type heard struct {
	word   Word
	again  [kinds]int64 // bytes granted of the kind at which Behind may go first again
	passed [kinds]bool  // Hot has left its last turn to others
}

// crowd is who waits in the rings of turns.
type crowd struct {
	waiting [kinds]int
	notHot  [kinds]int
	granted [kinds]int64 // bytes so far
}

// Say takes a word on a worker. Word by word the rule is the same as if it had
// always been so: nothing is owed for turns taken before.
func (p *Policy) Say(worker int, word Word) error {
	switch {
	case worker < 0 || worker >= len(p.workers):
		return &Error{Op: "say", Worker: worker, Value: int64(worker), Limit: int64(len(p.workers) - 1), Err: ErrWorker}
	case word >= words:
		return &Error{Op: "say", Worker: worker, Value: int64(word), Limit: words - 1, Err: ErrWord}
	}
	w := &p.workers[worker]
	if w.word == word {
		return nil
	}
	for k := range Kind(kinds) {
		if p.turns[k].has(int32(worker)) {
			p.crowd.notHot[k] += plain(word) - plain(w.word)
		}
	}
	w.word, w.passed = word, [kinds]bool{}
	return nil
}

// plain is 1 for those that count in crowd.notHot.
func plain(w Word) int {
	if w == Hot {
		return 0
	}
	return 1
}

// enter puts a worker behind the others of a ring, or in front of them.
func (p *Policy) enter(k Kind, at int32) {
	r, w, c := &p.turns[k], &p.workers[at], &p.crowd
	r.add(at)
	if w.word == Behind && c.granted[k] >= w.again[k] {
		r.front = at
		w.again[k] = c.granted[k] + int64(c.waiting[k])*p.quantum()
		p.stats.First++
	}
	c.waiting[k]++
	c.notHot[k] += plain(w.word)
}

// exit takes a worker out of a ring.
func (p *Policy) exit(k Kind, at int32) {
	w := &p.workers[at]
	p.turns[k].remove(at)
	w.passed[k] = false
	p.crowd.waiting[k]--
	p.crowd.notHot[k] -= plain(w.word)
}

// yield lets hot workers pass every second turn while another kind of worker
// waits, which ends it: that one does not pass.
func (p *Policy) yield(k Kind) int32 {
	r := &p.turns[k]
	for p.crowd.notHot[k] > 0 {
		w := &p.workers[r.front]
		if w.word != Hot || w.passed[k] {
			break
		}
		w.passed[k] = true
		p.stats.Passed++
		r.rotate()
	}
	return r.front
}

// quantum is what a turn is worth in bytes.
func (p *Policy) quantum() int64 { return max(p.est.chunk, minTurn) }
