package fan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"psrt/sched/psmsg"
)

// Seen is what the server's meter says of who has sent how much, beside what
// the workers know that they have pushed, both from before the first push to
// after the last answer.
type Seen struct {
	Meter  string  // "" where the server does not look
	Bytes  []int64 // by worker, with the transport's headers where the kernel counts
	Pushed []int64 // by worker
	// Named as hot or as stragglers while all pushed, of those that pushed.
	Hot, Stragglers []int
}

// seen asks the server.
func (p *probe) seen(ctx context.Context) (*psmsg.ViewStats, error) {
	var s psmsg.StatsReply
	if err := p.client.CallServer(ctx, 0, psmsg.MethodStats, struct{}{}, &s); err != nil {
		return nil, err
	}
	if s.View == nil {
		s.View = &psmsg.ViewStats{}
	}
	return s.View, nil
}

// between is what n workers have sent from one look to the next.
func (s *Seen) between(before, after *psmsg.ViewStats, pushed []int64) {
	s.Meter, s.Bytes, s.Pushed = after.Meter, make([]int64, len(pushed)), pushed
	for _, w := range after.Workers {
		if w.Worker >= 0 && w.Worker < len(s.Bytes) {
			s.Bytes[w.Worker] += int64(w.Bytes)
		}
	}
	for _, w := range before.Workers {
		if w.Worker >= 0 && w.Worker < len(s.Bytes) {
			s.Bytes[w.Worker] -= int64(w.Bytes)
		}
	}
}

// name takes who is named while n workers push.
func (s *Seen) name(v *psmsg.ViewStats, n int) {
	for _, w := range v.Workers {
		switch {
		case w.Worker < 0 || w.Worker >= n:
		case w.Hot:
			s.Hot = append(s.Hot, w.Worker)
		case w.Straggler:
			s.Stragglers = append(s.Stragglers, w.Worker)
		}
	}
}

// plus adds another round's.
func (s *Seen) plus(o *Seen) {
	s.Meter = o.Meter
	if s.Bytes == nil {
		s.Bytes, s.Pushed = make([]int64, len(o.Bytes)), make([]int64, len(o.Pushed))
	}
	for i := range o.Bytes {
		s.Bytes[i] += o.Bytes[i]
		s.Pushed[i] += o.Pushed[i]
	}
	s.Hot, s.Stragglers = union(s.Hot, o.Hot), union(s.Stragglers, o.Stragglers)
}

func union(a, b []int) []int {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// off is how far the meter is from what the workers have pushed, in percent: all
// of them together, which is headers, and at most one worker's from that, which is
// bytes put down to another.
func (s *Seen) off() (all, one float64) {
	var seen, pushed float64
	for i := range s.Bytes {
		seen += float64(s.Bytes[i])
		pushed += float64(s.Pushed[i])
	}
	if seen <= 0 || pushed <= 0 {
		return 0, 0
	}
	for i := range s.Bytes {
		if s.Pushed[i] > 0 {
			one = max(one, math.Abs(float64(s.Bytes[i])/float64(s.Pushed[i])*pushed/seen-1))
		}
	}
	return 100 * (seen/pushed - 1), 100 * one
}

// String says it for people, worker by worker where they are few.
func (s *Seen) String() string {
	if s.Meter == "" {
		return ""
	}
	all, one := s.off()
	text := fmt.Sprintf("seen by %s: %+.2f %% of what was pushed, headers among it, and of one worker's part at most %.2f %% more or less", s.Meter, all, one)
	if len(s.Bytes) <= fewWorkers {
		for i := range s.Bytes {
			text += fmt.Sprintf("; worker %d %.1f of %.1f MB", i, float64(s.Bytes[i])/1e6, float64(s.Pushed[i])/1e6)
		}
	}
	if len(s.Hot) > 0 {
		text += fmt.Sprintf("; hot: %v", s.Hot)
	}
	if len(s.Stragglers) > 0 {
		text += fmt.Sprintf("; stragglers: %v", s.Stragglers)
	}
	return text
}

const fewWorkers = 4
