package mem

import (
	"sort"
	"sync"
)

// PurposeUsage counts the live arenas of one purpose.
type PurposeUsage struct {
	Purpose string
	Arenas  int64
	Bytes   int64 // mapped
	Peak    int64 // bytes, since the process began
}

// ledger is the book of the whole process; see doc.go.
var ledger = struct {
	mu        sync.Mutex
	byPurpose map[string]*PurposeUsage
}{byPurpose: map[string]*PurposeUsage{}}

func count(purpose string, arenas, bytes int64) {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	u := ledger.byPurpose[purpose]
	if u == nil {
		u = &PurposeUsage{Purpose: purpose}
		ledger.byPurpose[purpose] = u
	}
	u.Arenas += arenas
	u.Bytes += bytes
	u.Peak = max(u.Peak, u.Bytes)
}

// Usage lists every purpose ever used, by name.
func Usage() []PurposeUsage {
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	list := make([]PurposeUsage, 0, len(ledger.byPurpose))
	for _, u := range ledger.byPurpose {
		list = append(list, *u)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Purpose < list[j].Purpose })
	return list
}
