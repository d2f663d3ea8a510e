package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"psrt/tiers/export/outdir"
	"psrt/tiers/export/text"
)

// openSource opens a file and reads its header.
func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, outdir.Explain("opening", path, err)
	}
	sum := sha256.New()
	r, err := text.NewReader(io.TeeReader(f, sum), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &source{Reader: r, f: f, path: path, sum: sum}
	if s.want, err = statedSum(path); err != nil {
		f.Close()
		return nil, err
	}
	if len(r.Model) > 0 {
		s.from = &Source{}
		if err := json.Unmarshal(r.Model, s.from); err != nil {
			f.Close()
			return nil, outdir.Corrupt(path, "what its header says of the model: %v", err)
		}
	}
	return s, nil
}

// statedSum is the SHA-256 of a file that the manifest beside it states, "" where there
// is none or it does not name the file.
func statedSum(path string) (string, error) {
	dir := filepath.Dir(path)
	if !outdir.IsExport(dir) {
		return "", nil
	}
	m, err := outdir.ReadManifest(dir)
	if err != nil {
		return "", err
	}
	for _, f := range m.Files {
		if f.Name == filepath.Base(path) {
			return f.SHA256, nil
		}
	}
	return "", nil
}

// compare refuses a file of another export that has been read to its end. One that was
// edited is what its user made it.
func (s *source) compare() error {
	if got := hex.EncodeToString(s.sum.Sum(nil)); s.want != "" && !s.Edited && got != s.want {
		return outdir.Corrupt(s.path, "its SHA-256 is %s, %s beside it says %s: it is of another export, or its last line was left as it was when it was edited (then shorten it to #end)", got, outdir.ManifestName, s.want)
	}
	return nil
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
