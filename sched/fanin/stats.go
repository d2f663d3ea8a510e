package fanin

// Stats is what an operator wants to see of a receiver.
type Stats struct {
	Rate             int64 // estimate, bytes/s
	RTTNanos         int64 // estimate
	ChunkBytes       int64
	WindowBytes      int64 // k chunks, and what answers add
	OutstandingBytes int64 // granted, not landed, in the window
	LateBytes        int64 // owed by workers that are late: their place is lent to others
	AsideBytes       int64 // owed by workers that are silent for too long
	WaitingWorkers   int   // that wait for a grant
	Grants           int64 // since the start, as all below
	GrantedBytes     int64
	LandedBytes      int64
	Late             int64 // times that a worker was
	SetAside         int64 // times that a worker was
	First            int64 // turns that a worker that is behind took before others
	Passed           int64 // turns that a hot worker left to others
}

// Stats counts the waiting workers one by one; call it a few times a second.
func (p *Policy) Stats() Stats {
	s := p.stats
	s.Rate, s.RTTNanos = p.est.rate, p.est.rtt
	s.ChunkBytes, s.WindowBytes = p.est.chunk, p.allowed()
	s.OutstandingBytes, s.LateBytes, s.AsideBytes = p.outstanding, p.lent, p.aside
	s.LandedBytes = p.est.delivered
	for w := range p.workers {
		if p.turns[Pull].has(int32(w)) || p.turns[Push].has(int32(w)) || p.trial.has(int32(w)) {
			s.WaitingWorkers++
		}
	}
	return s
}

// WorkerStats is one worker's part.
type WorkerStats struct {
	Transfers int
	OwedBytes int64
	Late      bool // it gets no grants until it lands a byte
	Aside     bool // the same, and nobody waits for it
	Word      Word
}

// Worker returns a zero value for a worker that does not exist.
func (p *Policy) Worker(worker int) WorkerStats {
	if worker < 0 || worker >= len(p.workers) {
		return WorkerStats{}
	}
	w := &p.workers[worker]
	return WorkerStats{Transfers: len(w.transfers), OwedBytes: w.owed, Late: w.standing == late, Aside: w.standing == aside, Word: w.word}
}

// Window is how many bytes may be outstanding, Outstanding how many are.
func (p *Policy) Window() int64      { return p.allowed() }
func (p *Policy) Outstanding() int64 { return p.outstanding }
