package train

import (
	"fmt"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

// DenseTable is what the dense values are called where tables are named.
const DenseTable = "dense"

// mode is how stale a table's reads may be.
func (j *Job) mode(name string) clock.Mode {
	if m, ok := j.TableSync[name]; ok {
		return m
	}
	m := clock.Fixed(j.staleness())
	if j.StalenessLeast != nil {
		m.Least = *j.StalenessLeast
	}
	return m
}

// modes are those of all tables.
func (j *Job) modes() []clock.Mode { return []clock.Mode{j.mode(EmbeddingTable), j.mode(DenseTable)} }

// serverModes is nil where all tables have the job's.
func (j *Job) serverModes() map[uint32]clock.Mode {
	if len(j.TableSync) == 0 && j.StalenessLeast == nil {
		return nil
	}
	return map[uint32]clock.Mode{EmbeddingID: j.mode(EmbeddingTable), psmsg.DenseLead: j.mode(DenseTable)}
}

// bsp says whether no table's reads are ever stale, oneInBSP whether those of one are and
// those of the other are not.
func (j *Job) bsp() bool {
	return !slices.ContainsFunc(j.modes(), func(m clock.Mode) bool { return !m.BSP() })
}

func (j *Job) oneInBSP() bool { return j.mode(EmbeddingTable).BSP() != j.mode(DenseTable).BSP() }

// holdsSteps says whether the steps of some table wait until all workers have finished them.
func (j *Job) holdsSteps() bool { return slices.ContainsFunc(j.modes(), clock.Mode.BSP) }

func (j *Job) validateModes() error {
	if l := j.StalenessLeast; l != nil {
		if m := (clock.Mode{Least: *l, Most: j.Staleness}); j.Sync != SSP || m.Check() != nil || !m.Moves() {
			return fmt.Errorf("train: a staleness of %d to %d steps with --sync %s: want the least first, and --sync ssp", *l, j.Staleness, j.Sync)
		}
	}
	for name, m := range j.TableSync {
		if err := m.Check(); err != nil {
			return fmt.Errorf("train: --table-sync %s: %w", name, err)
		}
		if name != EmbeddingTable && name != DenseTable {
			return fmt.Errorf("train: --table-sync %s=%s: there is no such table; models have %s (the rows) and %s", name, m, EmbeddingTable, DenseTable)
		}
	}
	if _, dense := j.TableSync[DenseTable]; dense && j.reduces() {
		return fmt.Errorf("train: --table-sync %s with --dense %s: dense values are never stale there; leave one of them out", DenseTable, j.Dense)
	}
	return nil
}
