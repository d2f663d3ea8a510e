package chain

// mostPatience is the longest that is waited before something is sent again, in
// ResendTicks.
const mostPatience = 10

// patience says when what was sent and is not acknowledged is sent again: after
// ResendTicks without progress, or twice as long as there was none of late, where the
// way is slow. Times are in ticks.
type patience struct {
	idle int // without progress, since something was sent again
	wait int // without progress
	slow int // the longest wait of late that has ended in progress
}

// progress notes that something new was acknowledged. What is remembered goes by an
// eighth, and by one at least.
func (p *patience) progress() {
	p.slow = max(p.slow-(p.slow+7)/8, p.wait)
	p.rest()
}

// rest is when nothing is waited for.
func (p *patience) rest() { p.idle, p.wait = 0, 0 }

// due counts a tick without progress, and says whether to send again.
func (p *patience) due(least int) bool {
	p.idle++
	p.wait++
	if p.idle < min(max(least, 2*p.slow), mostPatience*least) {
		return false
	}
	p.idle = 0
	return true
}
