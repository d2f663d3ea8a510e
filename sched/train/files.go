package train

import (
	"fmt"

	"psrt/sched/dataset"
)

// Files are the files that a job reads, as whoever described the job saw them; nil: not known.
type Files struct {
	Data  *dataset.FileSet `json:"data,omitempty"`
	Valid *dataset.FileSet `json:"valid,omitempty"`
	Test  *dataset.FileSet `json:"test,omitempty"`
}

// sameFiles refuses a source whose files are not those that the job was described with: this
// rank may be on another host, or take the place of one that began earlier. Copies are the
// same.
func sameFiles(src *dataset.Source, known *dataset.FileSet) error {
	what := known.Compare(src.Identities())
	if what == "" {
		return nil
	}
	return &InputError{fmt.Errorf("train: this rank reads other files than the job began with: %s; give all hosts the same files, and leave them as they are until the job has ended", what)}
}

// trainedOn are the files that this process reads rows from.
type trainedOn struct{ data, valid []dataset.Identity }

// sets returns the form that a checkpoint keeps. Its size is bounded, whatever the number of files.
func (t *trainedOn) sets() *Files {
	f := &Files{Data: dataset.NewFileSet(t.data)}
	if len(t.valid) > 0 {
		f.Valid = dataset.NewFileSet(t.valid)
	}
	return f
}

// differ names the first file that differs from a checkpoint's, and how; "" for none.
func (t *trainedOn) differ(from *Files) string {
	if what := from.Data.Compare(t.data); what != "" {
		return what
	}
	if what := from.Valid.Compare(t.valid); what != "" {
		return "--valid: " + what
	}
	return ""
}

// compareFiles refuses to go on with other files than the checkpoint's.
func (w *worker) compareFiles(p *position, number uint64) error {
	dir := w.job.Checkpoint.Dir
	switch {
	case w.job.Stream != nil: // its log has them
	case p.Files == nil:
		w.rank.emit(Event{Note: fmt.Sprintf("checkpoint %d in %s does not say which files it was trained on, as an older psrt wrote it: they are taken to be the same", number, dir)})
	default:
		if what := w.files.differ(p.Files); what != "" {
			return &InputError{fmt.Errorf("train: the data are not those that checkpoint %d in %s was trained on: %s; put them back as they were, or begin anew with another --checkpoint", number, dir, what)}
		}
	}
	return nil
}
