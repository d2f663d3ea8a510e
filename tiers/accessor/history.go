package accessor

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
)

// EventKind is what happens to all rows of a table at once. The letters are how
// a History is written down.
type EventKind byte

// The events.
const (
	Shrink   EventKind = 's' // counters decay; rows of low score and rows not seen for long go
	Day      EventKind = 'd' // one more day unseen
	CutDelta EventKind = '1' // a delta for serving begins with what there is now
	CutBase  EventKind = '2' // a base does
	Saved    EventKind = 'k' // it is known to be good
	Failed   EventKind = 'f' // it is not: what it took comes again
	Evict    EventKind = 'e' // rows whose score is below Below go
)

// Event is an event with its number, if it has one.
type Event struct {
	Kind  EventKind
	Below float64 // Evict's
}

// MaxEvents bounds a History: at a hundred a day, for a hundred years.
const MaxEvents = 1 << 22

// History is all events of a table since it was made, in order. Rows hold how many
// of them they have taken in. The zero value is empty and ready; Add and what
// reads belong to one goroutine.
type History struct {
	kinds  []EventKind
	counts [128]int // by kind, which are ASCII letters
	evicts []evict
	open   EventKind // the cut that is neither Saved nor Failed, or 0
}

type evict struct {
	at    int
	below float64
}

// Len is the number of events.
func (h *History) Len() int { return len(h.kinds) }

// Cutting says whether a save has begun and not ended.
func (h *History) Cutting() bool { return h.open != 0 }

// Add appends an event.
func (h *History) Add(e Event) error {
	if len(h.kinds) >= MaxEvents {
		return errFull()
	}
	switch e.Kind {
	case Shrink, Day:
	case CutDelta, CutBase:
		if h.open != 0 {
			return errors.New("lifecycle: a save begins while another is not known to be good or failed; end that first")
		}
		h.open = e.Kind
	case Saved, Failed:
		if h.open == 0 {
			return errors.New("lifecycle: a save ends that has not begun")
		}
		h.open = 0
	case Evict:
		if !(e.Below >= 0) || math.IsInf(e.Below, 0) {
			return fmt.Errorf("lifecycle: eviction below score %v, must be finite and not negative", e.Below)
		}
		h.evicts = append(h.evicts, evict{len(h.kinds), e.Below})
	default:
		return fmt.Errorf("lifecycle: event %q, must be one of %c%c%c%c%c%c%c", e.Kind, Shrink, Day, CutDelta, CutBase, Saved, Failed, Evict)
	}
	if e.Kind != Evict && e.Below != 0 {
		return fmt.Errorf("lifecycle: event %c with a score of %v, which only %c has", e.Kind, e.Below, Evict)
	}
	h.kinds = append(h.kinds, e.Kind)
	h.counts[e.Kind&127]++
	return nil
}

// MayFollow says whether events can be added one after the other behind what there
// is, and what still waits to be added.
func (h *History) MayFollow(waiting, events []Event) error {
	t := History{open: h.open}
	if n := len(h.kinds) + len(waiting) + len(events); n > MaxEvents {
		return errFull()
	}
	for _, e := range waiting {
		if err := t.Add(e); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := t.Add(e); err != nil {
			return err
		}
	}
	return nil
}

func errFull() error {
	return fmt.Errorf("lifecycle: %d events are the most a table's history holds; export the model and import it into a new table", MaxEvents)
}

// below is the score of the eviction at place i.
func (h *History) below(i int) float64 {
	at, _ := slices.BinarySearchFunc(h.evicts, i, func(e evict, i int) int { return e.at - i })
	return h.evicts[at].below
}

// String is a letter an event; behind an eviction's stand the 16 hexadecimal
// digits of its score's bits.
func (h *History) String() string {
	if len(h.evicts) == 0 {
		b := make([]byte, len(h.kinds))
		for i, k := range h.kinds {
			b[i] = byte(k)
		}
		return string(b)
	}
	return FormatEvents(h.From(0)...)
}

// From are the events from the i-th on.
func (h *History) From(i int) []Event {
	out := make([]Event, 0, max(0, len(h.kinds)-i))
	for ; i < len(h.kinds); i++ {
		e := Event{Kind: h.kinds[i]}
		if e.Kind == Evict {
			e.Below = h.below(i)
		}
		out = append(out, e)
	}
	return out
}

// Count is how many events there were of a kind.
func (h *History) Count(k EventKind) int { return h.counts[k&127] }

// ParseHistory is String's inverse.
func ParseHistory(text string) (History, error) {
	var h History
	events, err := ParseEvents(text)
	if err != nil {
		return h, err
	}
	for i, e := range events {
		if err := h.Add(e); err != nil {
			return History{}, fmt.Errorf("event %d of the history: %w", i, err)
		}
	}
	return h, nil
}

// ParseEvents reads a part of what String writes.
func ParseEvents(text string) (events []Event, err error) {
	for i := 0; i < len(text); i++ {
		e := Event{Kind: EventKind(text[i])}
		if e.Kind == Evict {
			if i+16 >= len(text) {
				return nil, fmt.Errorf("lifecycle: the history ends within the eviction at byte %d", i)
			}
			b, err := hex.DecodeString(text[i+1 : i+17])
			if err != nil {
				return nil, fmt.Errorf("lifecycle: the eviction at byte %d of the history: %w", i, err)
			}
			e.Below = math.Float64frombits(binary.BigEndian.Uint64(b))
			i += 16
		}
		events = append(events, e)
	}
	return events, nil
}

// FormatEvents is ParseEvents' inverse.
func FormatEvents(events ...Event) string {
	var out []byte
	for _, e := range events {
		out = append(out, byte(e.Kind))
		if e.Kind == Evict {
			out = hex.AppendEncode(out, binary.BigEndian.AppendUint64(nil, math.Float64bits(e.Below)))
		}
	}
	return string(out)
}
