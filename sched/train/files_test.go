package train

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"psrt/sched/dataset"
	"psrt/sched/train/model"
)

// Checkpoints of an older psrt, which have no files, are gone on from with one line.
func TestCheckpointWithoutFiles(t *testing.T) {
	var notes []string
	w := &worker{job: &Job{Checkpoint: &Checkpoint{Dir: "ck"}}, rank: &Rank{Events: func(e Event) { notes = append(notes, e.Note) }},
		files: trainedOn{data: []dataset.Identity{{Path: "a", Size: 1, Sample: "x"}}}}
	if err := w.compareFiles(&position{}, 3); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "checkpoint 3 in ck does not say which files") {
		t.Errorf("%q, %v", notes, err)
	}
	notes = nil
	was := position{Files: &Files{Data: dataset.NewFileSet([]dataset.Identity{{Path: "a", Size: 2, Sample: "y"}})}}
	var bad *InputError
	if err := w.compareFiles(&was, 3); !errors.As(err, &bad) || !strings.Contains(err.Error(), "a has changed: it had 2 bytes") || len(notes) > 0 {
		t.Errorf("%q, %v", notes, err)
	}
	b, err := json.Marshal(position{Files: w.files.sets()})
	var back position
	if err = errors.Join(err, json.Unmarshal(b, &back)); err != nil || back.Files == nil || w.compareFiles(&back, 3) != nil {
		t.Errorf("%s: %v", b, err)
	}
}

// What two jobs differ in is said by its name and values, not by whole structures.
func TestDifference(t *testing.T) {
	base := pattern{Data: []string{"d"}, Model: model.Spec{Kind: model.LR, Dim: 8, MeanLabel: .25, Hidden: []int{4, 2}}, Batch: 16,
		Reading: dataset.Options{Format: dataset.CSV, Schema: &dataset.Schema{Columns: []dataset.Column{{Name: "x"}}}}}
	for _, c := range []struct {
		change func(p *pattern)
		want   string
	}{
		{func(*pattern) {}, ""},
		{func(p *pattern) { p.Batch = 32 }, "Batch was 16, now it is 32"},
		{func(p *pattern) { p.Data = []string{"e"} }, `Data[0] was "d", now it is "e"`},
		{func(p *pattern) { p.Data = []string{"d", "e"} }, `Data was ["d"], now it is ["d","e"]`},
		{func(p *pattern) { p.Valid = []string{"e"} }, `Valid was not given, now it is ["e"]`},
		{func(p *pattern) {
			p.Model = model.Spec{Kind: model.LR, Dim: 16, MeanLabel: .25, Hidden: []int{4, 2}}
		}, "Model.dim was 8, now it is 16"},
		{func(p *pattern) {
			p.Model = model.Spec{Kind: model.LR, Dim: 8, MeanLabel: .25, Hidden: []int{4, 3}}
		}, "Model.hidden[1] was 2, now it is 3"},
		{func(p *pattern) {
			p.Model = model.Spec{Kind: model.LR, Dim: 8, MeanLabel: .5, Hidden: []int{4, 2}}
		}, "Model.mean_label was 0.25, now it is 0.5, which is the mean of the first rows' labels: the data have changed"},
		{func(p *pattern) { p.Reading.Schema = &dataset.Schema{Columns: []dataset.Column{{Name: "y"}}} }, `[0].Name was "x", now it is "y"`},
	} {
		p := base
		c.change(&p)
		got := base.differs(p)
		if (got == "") != (c.want == "") || !strings.Contains(strings.ToLower(got), strings.ToLower(c.want)) || strings.Contains(got, "map[") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
