package pipe

import (
	"testing"
	"testing/synctest"
	"time"

	"psrt/sched/pipe/settle"
)

// What is announced is a stage of its own, by the number that the step will have; where
// nothing is, there is no such stage.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Line{Depth: settle.NewDepth(1, 1), Meter: &Meter{}, Trace: &Trace{Steps: 10}}
		if got := l.Meter.Summary(Stage{Name: "read"}).Stages; len(got) != 4 {
			t.Errorf("stages %+v, want 4", got)
		}
		l.Trace.number()
		first, second := l.Announce(1), l.Announce(2)
		time.Sleep(3 * time.Second)
		l.Told(&second)
		time.Sleep(time.Second)
		l.Told(&first)
		l.Told(&first) // which is over
		var none Announcement
		l.Told(&none)
		got := l.Meter.Summary(Stage{Name: "read"})
		if s := got.Stages[1]; s.Name != "announce" || s.Seconds != 4 || s.Sum != 7 || s.Mean != 3.5 {
			t.Errorf("%+v, want 4 s of 7, 3.5 a step", s)
		}
		spans := l.Trace.Spans()
		if len(spans) != 2 || spans[0].Step != 3 || spans[1].Step != 2 || spans[1].Lane != laneAnnounce || spans[1].Length != 4e6 {
			t.Errorf("%+v", spans)
		}
		quiet := Summary{Stages: []Stage{{Name: "read", Seconds: 1}, {Name: "pull", Seconds: 1}}}
		sum := Merge([]Summary{quiet, got}, 4)
		if s := sum.Stages; len(s) != 5 || s[1].Name != "announce" || s[1].Busy != .5 || s[2].Name != "pull" || s[2].Busy != .125 {
			t.Errorf("%+v", s)
		}
	})
}
