package pipe

import "time"

// Announcement is the word to servers that a step's values will be pulled, for as long as
// it is under way. Whoever feeds a line may give it, on the goroutine that runs the line.
type Announcement struct {
	step   uint64
	posted time.Time // zero: there is none
}

// Announce notes the announcement of the step that is so many behind the newest one which
// Next has given.
func (l *Line) Announce(behind int) Announcement {
	l.Meter.announce.begin()
	return Announcement{l.Trace.after(behind), time.Now()}
}

// Told notes that it was answered; once.
func (l *Line) Told(a *Announcement) {
	if a.posted.IsZero() {
		return
	}
	now := time.Now()
	l.Meter.announce.end(now.Sub(a.posted))
	l.Trace.span("announce", laneAnnounce, a.step, a.posted, now)
	*a = Announcement{}
}
