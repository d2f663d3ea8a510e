package ckpt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"psrt/tiers/table"
)

// Manifest describes a model, or what a generation of a history changes in its
// parent's. Commit fills Format and Generation, and the Lineage.
type Manifest struct {
	Format     int    `json:"format"`
	Generation string `json:"generation"` // directory of the parts

	// Lineage is where a generation stands; empty in format 1.
	Lineage
	// Step and Position are where the job was, the latter in its own words
	// (reader, clocks, seed, epoch). Generations only.
	Step     int64           `json:"step,omitempty"`
	Position json.RawMessage `json:"position,omitempty"`
	// Lifecycle is what tables with one have been through, by ID, in the words of
	// whoever keeps it.
	Lifecycle map[uint32]string `json:"lifecycle,omitempty"`

	Meta        json.RawMessage `json:"meta"`   // the caller's description of the model
	Digest      string          `json:"digest"` // the caller's, in hex; over rows and state as they were in memory
	WeightsOnly bool            `json:"weights_only"`
	Slots       int             `json:"slots"` // of the key space when it was written
	Tables      []table.Spec    `json:"tables"`
	Dense       []DenseSpec     `json:"dense"`
	Layouts     []string        `json:"layouts,omitempty"` // in a file of a history only
	Parts       []Part          `json:"parts"`
	Beside      []Beside        `json:"beside,omitempty"` // generations only
}

// DenseSpec describes a dense vector.
type DenseSpec struct {
	Name     string          `json:"name"`
	ID       uint32          `json:"id"` // among dense vectors
	Elements int64           `json:"elements"`
	Spec     json.RawMessage `json:"spec,omitempty"` // the caller's
}

// Range is First <= i < Last: slots, or elements of a dense vector.
type Range struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Part describes a part file.
type Part struct {
	File    string  `json:"file"`
	Dense   bool    `json:"dense,omitempty"`
	Table   uint32  `json:"table"`             // ID
	Covers  []Range `json:"covers,omitempty"`  // slots or elements, in order
	Layout  *int    `json:"layout,omitempty"`  // in a file: which of the layouts stands for Covers
	Records int64   `json:"records"`           // rows, deletions or dense blocks
	Deleted int64   `json:"deleted,omitempty"` // of the records
	Holds   *int64  `json:"holds,omitempty"`   // rows of these slots in the whole model, where the writer said
	Bytes   int64   `json:"bytes"`
	SHA256  string  `json:"sha256"`
	// ID is in the part's header, too. Blocks is the SHA-256 of its header, of the
	// headers of its blocks, which have their checksums, and of its footer: a reader
	// compares it without hashing every byte. Parts written before have neither, and
	// are hashed while they are read.
	ID     string `json:"id,omitempty"`
	Blocks string `json:"blocks,omitempty"`
}

// ManifestName is the file that makes a directory a model.
const ManifestName = "MANIFEST.json"

// maxManifest bounds what Open reads: 4096 lanes with the ranges of 2^20 slots
// stay far below.
const maxManifest = 256 << 20

const (
	manifestHead = "{\n\"sha256\": \""
	manifestMid  = "\",\n\"manifest\": "
	manifestTail = "\n}\n"
)

// render is the file: JSON, and checked to the last bit.
func (m *Manifest) render() ([]byte, error) {
	body, err := json.MarshalIndent(m.packed(), "", " ")
	if err != nil {
		return nil, fmt.Errorf("ckpt: manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	var b bytes.Buffer
	b.WriteString(manifestHead + hex.EncodeToString(sum[:]) + manifestMid)
	b.Write(body)
	b.WriteString(manifestTail)
	return b.Bytes(), nil
}

// parseManifest reads what render wrote; path is for errors.
func parseManifest(path string, b []byte) (*Manifest, error) {
	head := len(manifestHead) + 2*sha256.Size
	body := head + len(manifestMid)
	if len(b) < body+len(manifestTail) || string(b[:len(manifestHead)]) != manifestHead ||
		string(b[head:body]) != manifestMid || string(b[len(b)-len(manifestTail):]) != manifestTail {
		return nil, corrupt(path, "it is not a manifest that psrt wrote")
	}
	raw := b[body : len(b)-len(manifestTail)]
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != string(b[len(manifestHead):head]) {
		return nil, corrupt(path, "its SHA-256 is not the one it states")
	}
	var m Manifest
	// The format alone first: a later one may have other types.
	var f struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, corrupt(path, "%v", err)
	}
	if f.Format < 1 || f.Format > newest {
		return nil, fmt.Errorf("ckpt: %s has format %d, this psrt reads 1 to %d; use a newer psrt", path, f.Format, newest)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, corrupt(path, "%v", err)
	}
	if err := m.unpack(); err != nil {
		return nil, corrupt(path, "%v", err)
	}
	if err := m.validate(); err != nil {
		return nil, corrupt(path, "%v", err)
	}
	m.SHA256 = string(b[len(manifestHead):head])
	return &m, nil
}

// recordBytes is the size of a row's record.
func (m *Manifest) recordBytes(s *table.Spec) int {
	switch {
	case m.Quantise == QuantFP16:
		return 12 + 2*s.Dim
	case m.Quantise == QuantInt8:
		return 12 + s.Dim
	case m.WeightsOnly:
		return 8 + 4*s.Dim
	}
	return 8 + s.RowBytes()
}

// ofHistory: it is a generation of a history.
func (m *Manifest) ofHistory() bool { return m.Format >= FormatHistory }

// flags are those of its parts of rows; dense ones have no quantised form.
func (m *Manifest) flags(dense bool) uint32 {
	f := uint32(0)
	if m.WeightsOnly {
		f |= flagWeightsOnly
	}
	switch {
	case dense:
	case m.Quantise == QuantFP16:
		f |= flagFP16
	case m.Quantise == QuantInt8:
		f |= flagInt8
	}
	if m.Compress == CompressLZ4 {
		f |= flagLZ4
	}
	return f
}

// Spec is the table with an ID, nil if the model has none.
func (m *Manifest) Spec(id uint32) *table.Spec {
	for i := range m.Tables {
		if m.Tables[i].ID == id {
			return &m.Tables[i]
		}
	}
	return nil
}

// Rows is the number of a table's rows in the parts: in a delta, those that
// have changed.
func (m *Manifest) Rows(id uint32) int64 {
	n := int64(0)
	for _, p := range m.Parts {
		if !p.Dense && p.Table == id {
			n += p.Records - p.Deleted
		}
	}
	return n
}

// Bytes is the size of all parts.
func (m *Manifest) Bytes() int64 {
	n := int64(0)
	for _, p := range m.Parts {
		n += p.Bytes
	}
	return n
}

// validate checks that the manifest describes one whole model: every slot of
// every table and every element of every dense vector in one part.
func (m *Manifest) validate() error {
	if m.Slots < 1 {
		return fmt.Errorf("%d slots, want at least 1", m.Slots)
	}
	if !validName(strings.TrimPrefix(m.Generation, partsPrefix)) || !strings.HasPrefix(m.Generation, partsPrefix) {
		return fmt.Errorf("generation %q is no directory name of ours", m.Generation)
	}
	if err := m.validHistory(); err != nil {
		return err
	}
	covers := map[[2]uint32][][]Range{}
	checked := coverage{}
	files := map[string]bool{}
	ranges := map[uint32]int{} // of a table
	for _, p := range m.Parts {
		if !validName(strings.TrimSuffix(p.File, partSuffix)) || !strings.HasSuffix(p.File, partSuffix) {
			return fmt.Errorf("part %q is no file name of ours", p.File)
		}
		if files[p.File] {
			return fmt.Errorf("part %s is named twice", p.File)
		}
		files[p.File] = true
		if p.Deleted < 0 || p.Deleted > p.Records || p.Deleted > 0 && (p.Dense || m.Kind != KindDelta) || p.Holds != nil && *p.Holds < 0 {
			return fmt.Errorf("part %s of a %s has %d deletions among %d records", p.File, cmp.Or(m.Kind, KindBase), p.Deleted, p.Records)
		}
		if _, ok := parsePartID(p.ID); !ok || (p.ID == "") != (p.Blocks == "") || p.ID != "" && len(p.Blocks) != 2*sha256.Size {
			return fmt.Errorf("part %s has the id %q and the hash of blocks %q", p.File, p.ID, p.Blocks)
		}
		if p.Records < 0 || p.Bytes < headerBytes+footerBytes || len(p.SHA256) != 2*sha256.Size {
			return fmt.Errorf("part %s has %d records, %d bytes, SHA-256 %q", p.File, p.Records, p.Bytes, p.SHA256)
		}
		if m.ofHistory() && !p.Dense && p.Records > 0 && len(p.Covers) == 0 {
			return fmt.Errorf("part %s has %d records and covers no slot", p.File, p.Records)
		}
		k := partKey(p.Dense, p.Table)
		// Parts of a file share their ranges, so few bytes can stand for many.
		if !p.Dense {
			ranges[p.Table] += len(p.Covers)
		}
		if m.ofHistory() && ranges[p.Table] > m.Slots {
			return fmt.Errorf("table %d has more ranges of slots than there are slots (%d): some are in two parts", p.Table, m.Slots)
		}
		covers[k] = append(covers[k], p.Covers)
	}
	if err := m.validBesides(files); err != nil {
		return err
	}
	for i := range m.Tables {
		s := &m.Tables[i]
		if err := s.Validate(); err != nil {
			return err
		}
		k := partKey(false, s.ID)
		if err := checked.all(covers[k], int64(m.Slots)); err != nil {
			return fmt.Errorf("table %s: slot %w", s.Name, err)
		}
		delete(covers, k)
	}
	for _, d := range m.Dense {
		k := partKey(true, d.ID)
		if err := checked.all(covers[k], d.Elements); err != nil {
			return fmt.Errorf("dense vector %s: element %w", d.Name, err)
		}
		delete(covers, k)
	}
	for k := range covers {
		return fmt.Errorf("parts of table %d (dense: %v), which the manifest does not describe, or twice", k[1], k[0] == 1)
	}
	return nil
}

func partKey(dense bool, id uint32) [2]uint32 {
	if dense {
		return [2]uint32{1, id}
	}
	return [2]uint32{0, id}
}

// coverage remembers what was found to be whole: all tables of a job are cut
// alike, and parts of one file share their ranges.
type coverage map[string]bool

// all checks that the ranges of some parts, in any order, are 0..n-1 once.
func (c coverage) all(parts [][]Range, n int64) error {
	key := fmt.Appendf(nil, "%d", n)
	var ranges []Range
	for _, p := range parts {
		if len(p) > 0 {
			key = fmt.Appendf(key, " %p %d", &p[0], len(p))
		}
	}
	if c[string(key)] {
		return nil
	}
	for _, p := range parts {
		ranges = append(ranges, p...)
	}
	if err := coversAll(ranges, n); err != nil {
		return err
	}
	c[string(key)] = true
	return nil
}

// coversAll checks that ranges, in any order, are 0..n-1 once.
func coversAll(ranges []Range, n int64) error {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
	next := int64(0)
	for _, r := range ranges {
		switch {
		case r.Last < r.First:
			return fmt.Errorf("%d to %d is no range", r.First, r.Last)
		case r.First > next:
			return fmt.Errorf("%d is in no part; a server's parts are missing", next)
		case r.First < next && r.First < r.Last:
			return fmt.Errorf("%d is in two parts", r.First)
		}
		next = max(next, r.Last)
	}
	if next != n {
		return fmt.Errorf("%d of %d is the first in no part", next, n)
	}
	return nil
}

// validName keeps names from outside inside their directory.
func validName(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
