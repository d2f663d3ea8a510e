package pipe

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Lanes of a trace, in the order in which they are shown.
const (
	laneRead = iota
	laneAnnounce
	lanePull
	laneCompute
	lanePush
	lanes
)

var laneNames = [lanes]string{"read", "announce", "pull", "compute", "push"}

// traceLeast is the shortest wait that is worth a span.
const traceLeast = 20 * time.Microsecond

// traceMost bounds the spans that one worker keeps.
const traceMost = 8192

// Span is one piece of work in a trace. Times are of the wall clock, so that those of
// several processes of a host fit together.
type Span struct {
	Name   string `json:"n"`
	Lane   int    `json:"l"`
	Step   uint64 `json:"s"` // counted from 1; 0: of none
	Micros int64  `json:"t"` // since 1970
	Length int64  `json:"d"` // µs
}

// Trace keeps what happens in some steps: those after the first Skip, as many as Steps
// says. Any goroutine; nil keeps nothing.
type Trace struct {
	Skip, Steps uint64

	mu    sync.Mutex
	begun uint64
	spans []Span
}

// number counts a step that begins.
func (t *Trace) number() uint64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
	return t.begun
}

// after is the number that a step gets which begins so many steps behind the newest one.
func (t *Trace) after(behind int) uint64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun + uint64(behind)
}

func (t *Trace) span(name string, lane int, step uint64, from, to time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := cmp.Or(step, t.begun)
	if at <= t.Skip || at > t.Skip+t.Steps || len(t.spans) == traceMost {
		return
	}
	t.spans = append(t.spans, Span{name, lane, step, from.UnixMicro(), to.Sub(from).Microseconds()})
}

// Read notes a piece of reading, which runs ahead of the steps that are begun.
func (t *Trace) Read(name string, from, to time.Time) { t.span(name, laneRead, 0, from, to) }

// Spans are what was kept.
func (t *Trace) Spans() []Span {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.spans)
}

// event is one of the Trace Event Format, which Perfetto and chrome://tracing read:
// X is a span, b and e are the ends of one that may overlap others of its lane, M names
// a process or a thread.
type event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Category string         `json:"cat,omitempty"`
	ID       uint64         `json:"id,omitempty"`
	Micros   int64          `json:"ts"`
	Length   *int64         `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTrace writes what workers kept, each as a process of the trace.
func WriteTrace(w io.Writer, workers [][]Span) error {
	events := []event{}
	name := func(kind string, worker, lane int, what string) {
		events = append(events, event{Name: kind, Phase: "M", Process: worker, Thread: lane, Args: map[string]any{"name": what}})
	}
	start := int64(0)
	for _, spans := range workers {
		for _, s := range spans {
			if start == 0 || s.Micros < start {
				start = s.Micros
			}
		}
	}
	for i, spans := range workers {
		name("process_name", i, 0, "worker "+strconv.Itoa(i))
		for lane, what := range laneNames {
			name("thread_name", i, lane, what)
		}
		for _, s := range spans {
			e := event{Name: s.Name, Category: laneNames[s.Lane], Micros: s.Micros - start, Process: i, Thread: s.Lane}
			if s.Step > 0 {
				e.Args = map[string]any{"step": s.Step}
			}
			if s.Lane == laneAnnounce || s.Lane == lanePull || s.Lane == lanePush { // several at once
				e.Name += " of step " + strconv.Itoa(int(s.Step))
				e.ID, e.Phase = uint64(i)<<32|s.Step, "b"
				end := e
				end.Phase, end.Micros = "e", e.Micros+s.Length
				events = append(events, e, end)
				continue
			}
			e.Phase, e.Length = "X", &s.Length
			events = append(events, e)
		}
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
}
