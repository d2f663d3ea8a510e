package fanin

// Answers notes that n more bytes of answers, or with a negative n fewer, are on their way
// to the workers over the same link. A grant stands behind them in this side's queue, so
// the round trip is longer by the time that they take, and as many more bytes must be
// granted for the other direction to be full. Where that queue is shorter they wait in
// the switch, so there are at most as many as it must hold anyhow, BurstBytes. With a quarter
// of a MiB a line of 100 Mbit/s whose way out was full carried .6 of its rate on the way in:
// half a MiB of values was in front of each grant.
func (p *Policy) Answers(n int64) { p.answers = max(0, p.answers+n) }

// allowed is how many bytes may be outstanding now.
func (p *Policy) allowed() int64 { return p.est.window + min(p.answers, p.cfg.BurstBytes) }
