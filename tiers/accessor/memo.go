package accessor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Memo is what a saved model keeps of a table's lifecycle: what has happened, the
// same on all lanes, and the graves of all of them, in any order.
type Memo struct {
	History string
	Graves  []uint64
}

// Memo is this lane's.
func (a *Accessor) Memo() Memo {
	if a.life == nil {
		return Memo{}
	}
	return Memo{a.life.history.String(), a.life.graves.all()}
}

// Merge adds another lane's graves. Lanes to which other things have happened are
// an error: they cannot be saved together.
func (m *Memo) Merge(o Memo) error {
	if m.History != o.History {
		return fmt.Errorf("lifecycle: one lane has been through %q, another through %q", tail(m.History), tail(o.History))
	}
	m.Graves = append(m.Graves, o.Graves...)
	return nil
}

// tail is the end of a history, for messages.
func tail(h string) string { return h[max(0, len(h)-40):] }

// String is the history, and behind a semicolon the graves in hexadecimal,
// separated by commas.
func (m Memo) String() string {
	var b strings.Builder
	b.WriteString(m.History)
	graves := slices.Clone(m.Graves)
	slices.Sort(graves)
	for i, k := range slices.Compact(graves) {
		b.WriteByte(";,"[min(i, 1)])
		b.WriteString(strconv.FormatUint(k, 16))
	}
	return b.String()
}

// ParseMemo is String's inverse.
func ParseMemo(text string) (Memo, error) {
	history, graves, isThere := strings.Cut(text, ";")
	if _, err := ParseHistory(history); err != nil {
		return Memo{}, err
	}
	m := Memo{History: history}
	if !isThere {
		return m, nil
	}
	for k := range strings.SplitSeq(graves, ",") {
		v, err := strconv.ParseUint(k, 16, 64)
		if err != nil {
			return Memo{}, fmt.Errorf("lifecycle: %q among the keys of rows that are gone: %w", k, err)
		}
		m.Graves = append(m.Graves, v)
	}
	return m, nil
}
