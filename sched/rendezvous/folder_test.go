package rendezvous

import (
	"strings"
	"testing"
	"time"
)

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	m, token, err := OpenFolder(t.Context(), dir, "job 1", 0, time.Minute)
	if err != nil || len(token) != TokenBytes {
		t.Fatal(err)
	}
	if _, other, err := OpenFolder(t.Context(), dir, "job 1", 1, time.Minute); err != nil || string(other) != string(token) {
		t.Errorf("rank 1 has another token: %v", err)
	}
	if _, _, err := OpenFolder(t.Context(), dir, "job 2", 1, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no rank 0") {
		t.Errorf("nobody was met: %v", err)
	}
	// What was left by a killed run of the same key is replaced.
	if _, again, err := OpenFolder(t.Context(), dir, "job 1", 0, time.Minute); err != nil || string(again) == string(token) {
		t.Errorf("the old token stays: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
