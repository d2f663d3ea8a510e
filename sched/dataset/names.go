package dataset

import (
	"strings"
	"sync"
)

// maxName is how many bytes of a value's text are kept.
const maxName = 64

// Names are what one field's keys stand for in the files, as far as readers have met them:
// keys of criteo and csv are hashes. It keeps the first so many, and is safe for concurrent
// use. nil notes nothing.
type Names struct {
	field uint16
	most  int

	mu    sync.RWMutex
	texts map[uint64]string
}

// NewNames notes at most so many keys of a field.
func NewNames(field uint16, most int) *Names {
	return &Names{field: field, most: most, texts: make(map[uint64]string)}
}

// Of is a key's text, "" where it is not known.
func (n *Names) Of(key uint64) string {
	if n == nil {
		return ""
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.texts[key]
}

// wants says whether keys of a field are to be noted.
func (n *Names) wants(field int) bool { return n != nil && field == int(n.field) }

// note keeps a key's text, which is made where it is new.
func (n *Names) note(key uint64, text func() string) {
	n.mu.RLock()
	_, known := n.texts[key]
	full := len(n.texts) >= n.most
	n.mu.RUnlock()
	if known || full {
		return
	}
	s := text()
	if len(s) > maxName {
		s = s[:maxName] + "..."
	}
	s = strings.ToValidUTF8(s, "?")
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.texts) < n.most {
		n.texts[key] = s
	}
}

func (n *Names) noteText(key uint64, text []byte) { n.note(key, func() string { return string(text) }) }

// missingName is the text of a value that is not there.
const missingName = "missing"

// NoteNames has readers of the source note what keys stand for; nil: they do not. Call it
// before the first reader is made. In sparse formats a key is what the file says already.
func (s *Source) NoteNames(n *Names) {
	switch p := s.parser.(type) {
	case *csvParser:
		p.names = n
	case *criteoParser:
		p.names = n
	}
}
