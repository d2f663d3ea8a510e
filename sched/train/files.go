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

// trainedOn are the files that a checkpoint's rows come from.
type trainedOn struct {
	Data  []dataset.Identity `json:"data,omitempty"`
	Valid []dataset.Identity `json:"valid,omitempty"`
}

// differs says in words in which file a checkpoint's files are not those of now, "" for none.
func (t *trainedOn) differs(now *trainedOn) string {
	if what := dataset.CompareFiles(t.Data, now.Data); what != "" {
		return what
	}
	if what := dataset.CompareFiles(t.Valid, now.Valid); what != "" {
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
		if what := p.Files.differs(&w.files); what != "" {
			return &InputError{fmt.Errorf("train: the data are not those that checkpoint %d in %s was trained on: %s; put them back as they were, or begin anew with another --checkpoint", number, dir, what)}
		}
	}
	return nil
}
