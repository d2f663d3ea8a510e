package train

import (
	"fmt"

	"psrt/sched/client"
)

// validateHot refuses hot rows where values may not be stale, or say how old they are.
func (j *Job) validateHot() error {
	switch h := j.Hot; {
	case h == client.Hot{}:
		return nil
	case h.Rows < 1 || h.Rows > client.MaxHotRows:
		return fmt.Errorf("train: --hot-rows %d, want 0 to %d", h.Rows, client.MaxHotRows)
	case h.Staleness < 1:
		return fmt.Errorf("train: --hot-staleness %d, want at least 1; without --hot-rows nothing is stale", h.Staleness)
	case j.mode(EmbeddingTable).BSP():
		return fmt.Errorf("train: --hot-rows %d: every pull of %s has all steps before it; say --sync ssp --staleness N or --sync asp", h.Rows, BSP)
	case j.Lifecycle != nil:
		return fmt.Errorf("train: --hot-rows %d: rows with a lifecycle change without a push; leave one of them out", h.Rows)
	}
	return nil
}

// hotStats is nil where nothing is kept.
func (w *worker) hotStats() *client.HotStats {
	if w.job.Hot.Rows == 0 {
		return nil
	}
	st := w.client.HotRows()
	return &st
}
