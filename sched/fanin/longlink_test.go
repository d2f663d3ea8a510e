package fanin

import "testing"

// longLink carries grants to one worker and back: rate in bytes/s, a round trip of rttNanos, from
// eventAt on one of laterRTTNanos, and nothing at all for silentNanos then, as a lost packet holds a stream up.
type longLink struct {
	rate, rttNanos                      int64
	eventAt, laterRTTNanos, silentNanos int64

	busyUntil int64
	onWay     []flight // in order
}

type flight struct {
	Grant
	at int64
}

func (l *longLink) send(g Grant, now int64) {
	rtt := l.rttNanos
	if now >= l.eventAt {
		rtt = l.laterRTTNanos
	}
	at := max(now+rtt, l.busyUntil) + g.Bytes*1e9/l.rate
	if at >= l.eventAt && at < l.eventAt+l.silentNanos {
		at = l.eventAt + l.silentNanos
	}
	l.busyUntil = at
	l.onWay = append(l.onWay, flight{g, at})
}

// transfer is the simulated time of one push of bytes.
func (l *longLink) transfer(t *testing.T, p *Policy, bytes int64) int64 {
	var now int64
	if err := p.Announce(0, 1, bytes, Push, now); err != nil {
		t.Fatal(err)
	}
	for range 1_000_000 {
		for _, g := range p.Grants(now, nil) {
			l.send(g, now)
		}
		next := p.Deadline()
		if len(l.onWay) > 0 && l.onWay[0].at <= next {
			g := l.onWay[0]
			l.onWay, now = l.onWay[1:], g.at
			done, err := p.Arrived(0, g.ID, g.Bytes, now)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				return now
			}
			continue
		}
		if next == Never {
			t.Fatal("nothing is granted and nothing is on its way")
		}
		now = next
	}
	t.Fatal("a million events and no end")
	return 0
}

// A worker behind a slow and long link reaches the link's rate, though the first guesses fit a fast
// and short one, the link is silent for a while, or becomes longer: the round trip is learned from
// the first grants, and again when workers are late or set aside.
func TestLongLink(t *testing.T) {
	const rate, bytes, ms = 6_250_000, 40 << 20, 1_000_000
	for _, c := range []longLink{
		{rttNanos: ms, laterRTTNanos: ms},
		{rttNanos: 20 * ms, laterRTTNanos: 20 * ms},
		{rttNanos: 100 * ms, laterRTTNanos: 100 * ms},
		{rttNanos: 300 * ms, laterRTTNanos: 300 * ms},
		{rttNanos: ms, laterRTTNanos: ms, eventAt: 30 * ms, silentNanos: 230 * ms},
		{rttNanos: 20 * ms, laterRTTNanos: 20 * ms, eventAt: 30 * ms, silentNanos: 230 * ms},
		{rttNanos: 100 * ms, laterRTTNanos: 100 * ms, eventAt: 150 * ms, silentNanos: 1000 * ms},
		{rttNanos: ms, laterRTTNanos: 20 * ms, eventAt: 1000 * ms},
		{rttNanos: ms, laterRTTNanos: 60 * ms, eventAt: 1000 * ms},
		{rttNanos: ms, laterRTTNanos: 300 * ms, eventAt: 1000 * ms},
	} {
		c.rate = rate
		p, err := New(Config{Workers: 1, Rate: 125e6, RTTNanos: 100_000, LateNanos: 2 * ms, SilenceNanos: 100 * ms})
		if err != nil {
			t.Fatal(err)
		}
		nanos := c.transfer(t, p, bytes)
		if limit := (bytes*1_000_000_000/rate+c.silentNanos)*5/4 + 12*c.laterRTTNanos; nanos > limit {
			t.Errorf("%d MiB take %d ms, want at most %d ms; round trip %d ms, from %d ms on %d ms, silent for %d ms; %+v", bytes>>20,
				nanos/ms, limit/ms, c.rttNanos/ms, c.eventAt/ms, c.laterRTTNanos/ms, c.silentNanos/ms, p.Stats())
		}
	}
}
