package feature

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is the folder that holds the machine's proc and sys; "" is "/". Tests
// give a fake tree.
type Root string

func (r Root) path(name string) string { return filepath.Join("/", string(r), name) }

// read gives a file's text without the surrounding white space.
func (r Root) read(name string) (string, error) {
	b, err := os.ReadFile(r.path(name))
	return strings.TrimSpace(string(b)), err
}

func (r Root) readInt(name string) (int64, error) {
	s, err := r.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("feature: %s holds %.40q, want a number", r.path(name), s)
	}
	return n, nil
}

// chosen gives the bracketed word of a file like "always [madvise] never".
func (r Root) chosen(name string) (string, error) {
	s, err := r.read(name)
	if err != nil {
		return "", err
	}
	_, after, ok := strings.Cut(s, "[")
	word, _, closed := strings.Cut(after, "]")
	if !ok || !closed {
		return "", fmt.Errorf("feature: %s holds %.60q, want one choice in brackets", r.path(name), s)
	}
	return word, nil
}
