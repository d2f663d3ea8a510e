package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"psrt/tiers/export/outdir"
	"psrt/tiers/export/text"
)

// openSource opens a file and reads its header.
func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, outdir.Explain("opening", path, err)
	}
	r, err := text.NewReader(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &source{Reader: r, f: f, path: path}
	if len(r.Model) > 0 {
		s.from = &Source{}
		if err := json.Unmarshal(r.Model, s.from); err != nil {
			f.Close()
			return nil, outdir.Corrupt(path, "what its header says of the model: %v", err)
		}
	}
	return s, nil
}

// agree refuses files of different models.
func agree(sources []*source) (*Source, error) {
	first := sources[0]
	seen := map[string]string{}
	for _, s := range sources {
		what := ""
		switch {
		case s.State != first.State:
			what = "one has optimizer state, the other has not"
		case (s.from == nil) != (first.from == nil), s.from != nil && !s.from.same(first.from):
			what = "they are of different models"
		}
		if what != "" {
			return nil, outdir.Refuse("export: %s and %s do not belong together: %s", first.path, s.path, what)
		}
		var key string
		if s.Table != nil {
			key = fmt.Sprint("table ", s.Table.ID)
		} else {
			key = fmt.Sprint("dense vector ", s.Dense.ID)
		}
		if before, twice := seen[key]; twice {
			return nil, outdir.Refuse("export: %s and %s both have %s", before, s.path, key)
		}
		seen[key] = s.path
	}
	if first.from == nil {
		return &Source{}, nil
	}
	return first.from, nil
}

func (s *Source) same(o *Source) bool {
	return bytes.Equal(s.Meta, o.Meta) && s.Digest == o.Digest && s.WeightsOnly == o.WeightsOnly && s.Slots == o.Slots &&
		s.Generation == o.Generation && s.Tables == o.Tables && s.Dense == o.Dense
}
