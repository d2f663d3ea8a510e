package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"psrt/sched/train/metric"
)

// Predict makes a job one that scores rows: its workers share the rows out, look
// features up and make none. Where the job has servers, these begin with the model's
// rows; else each worker has them itself, or pulls them from servers that serve others.
type Predict struct {
	// Model is the model's place, Generation its number there, 0 of what is no history.
	Model      string `json:"model"`
	Generation uint64 `json:"generation,omitempty"`
	// Live are servers of psrt serve, TokenFile has their secret, and they are reached as
	// Rank.Reach says; rows, and the dense values where they have such, are theirs as they
	// are.
	Live      []string `json:"live,omitempty"`
	TokenFile string   `json:"token_file,omitempty"`
	// Labelled counts how good the scores are.
	Labelled bool `json:"labelled,omitempty"`
	// Out is the file for the scores, Emit says what is written for an index; either
	// may be missing.
	Out  string `json:"out,omitempty"`
	Emit *Emit  `json:"emit,omitempty"`
}

// Emit describes files for an index: an id and a vector for each row.
type Emit struct {
	// Name is what the files' names begin with.
	Name string `json:"name"`
	// ID is the field whose value is a row's id; nil: the row's number.
	ID *uint16 `json:"id,omitempty"`
	// Fields are those whose embeddings are added up; none: all.
	Fields []uint16 `json:"fields,omitempty"`
}

// Choose finds the fields of an index among those of the data, by name or by number from
// 0: the one with ids, "" for none, and those of vectors, comma separated. A nil Emit
// wants none.
func (e *Emit) Choose(id, fields string, find func(flag, by string) (uint16, error)) error {
	if e == nil {
		return nil
	}
	if id != "" {
		n, err := find("--emit-id", id)
		if err != nil {
			return err
		}
		e.ID = &n
	}
	for name := range strings.SplitSeq(fields, ",") {
		if name == "" {
			continue
		}
		n, err := find("--emit-fields", name)
		if err != nil {
			return err
		}
		e.Fields = append(e.Fields, n)
	}
	return nil
}

// Scored is what became of a job that scores.
type Scored struct {
	Rows    int64   `json:"rows"`
	Seconds float64 `json:"seconds"`
	// Features is the number of rows of the model, or at the servers: before and after.
	Features      int64 `json:"features"`
	FeaturesAfter int64 `json:"features_after"`
	// NotFinite is how many scores are NaN or infinite.
	NotFinite int64 `json:"not_finite,omitempty"`
	// Figures say how good the scores are; nil: nobody asked.
	Figures *metric.Report `json:"figures,omitempty"`
}

// Warning says what is wrong with the scores, "" for nothing.
func (s *Scored) Warning() string {
	if s.NotFinite == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d scores are not finite: the model has rows that are not, or the data have values too large for it", s.NotFinite, s.Rows)
}

// validatePredict checks a job that scores.
func (j *Job) validatePredict() error {
	p := j.Predict
	switch {
	case len(j.Data) == 0:
		return errors.New("train: no rows to score: give --data")
	case p.Model == "":
		return errors.New("train: no model: give --model")
	case j.Workers < 1 || j.Threads < 1 || j.Servers < 0 || j.Servers > 0 && j.Lanes < 1:
		return fmt.Errorf("train: %d servers of %d lanes, %d workers, %d threads: each must be at least 1, servers may be none", j.Servers, j.Lanes, j.Workers, j.Threads)
	case len(p.Live) > 0 && j.Servers > 0:
		return fmt.Errorf("train: rows of live servers and %d servers of this job: one of them", j.Servers)
	case len(p.Live) > 0 && p.TokenFile == "":
		return errors.New("train: live servers without their secret: give --token-file")
	case !p.Labelled && p.Out == "" && p.Emit == nil:
		return errors.New("train: ranks put their scores together in a file: give --out or --emit")
	case p.Out != "" && p.Emit != nil && filepath.Clean(p.Out) == filepath.Clean(p.Emit.Name):
		return fmt.Errorf("train: --out and --emit are both %s: give them different names", p.Out)
	}
	return nil
}
