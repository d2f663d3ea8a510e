package export

import (
	"fmt"
	"strings"

	"psrt/tiers/ckpt"
)

// names gives tables and dense vectors their file names, without suffix: their
// own where a file can have it and nobody else has, on file systems that do not
// tell large letters from small ones either.
type names struct {
	tables, dense []string
}

func fileNames(m *ckpt.Manifest) names {
	uses := map[string]int{}
	for _, t := range m.Tables {
		uses[strings.ToLower(t.Name)]++
	}
	for _, d := range m.Dense {
		uses[strings.ToLower(d.Name)]++
	}
	pick := func(name, kind string, id uint32) string {
		numbered := strings.HasPrefix(name, "table-") || strings.HasPrefix(name, "dense-")
		if uses[strings.ToLower(name)] > 1 || numbered || !plain(name) {
			return fmt.Sprintf("%s-%d", kind, id)
		}
		return name
	}
	var n names
	for _, t := range m.Tables {
		n.tables = append(n.tables, pick(t.Name, "table", t.ID))
	}
	for _, d := range m.Dense {
		n.dense = append(n.dense, pick(d.Name, "dense", d.ID))
	}
	return n
}

func plain(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 100 && strings.Trim(name, letters+"._-") == "" && strings.ContainsRune(letters, rune(name[0]))
}
