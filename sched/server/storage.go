package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/table"
)

// Storage has a server's tables keep in memory what fits into Config.MaxBytes,
// and all rows on disks. What is there belongs to the running server alone: it is
// emptied at the start and removed at the end.
type Storage struct {
	Dirs []string // one on each device
	// LimitBytes bounds what all of them hold, 0 for what there is; ExpectedBytes is
	// what they will have to, to be warned early.
	LimitBytes, ExpectedBytes int64
	// Pmem is a directory on a byte-addressable device for the rows in memory, ""
	// is memory.
	Pmem   string
	Policy string // which row leaves memory: of tiers/policy, "" is belady
	// BatchRows is about how many rows a step has, of all workers and lanes, and
	// LookAhead how many steps they announce.
	BatchRows, LookAhead int
	// Record is a file for what the first lane's pulls ask for, "" is none.
	Record string
	// Memory is what tables have of the server's memory, by ID; the others share what
	// is left alike.
	Memory map[uint32]int64
}

// storage is a lane's part: a store that all its tables share.
type storage struct {
	disks  *tiers.Disks
	dirs   []string
	record *record // nil without
}

// frameBytes is about what a row in memory takes beside itself, and
// batchesInMemory how many batches at least have room there.
const (
	frameBytes      = 64
	batchesInMemory = 4
)

// Of a lane's memory the disks' buffers take at most 1/bufferShare, where that is
// enough: between leastBuffer and deviceBuffer for each device.
const (
	bufferShare  = 8
	deviceBuffer = 3 << 20
	leastBuffer  = 1792 << 10
)

// StepsAtWork bounds a worker's steps that are not over: one pulled, one computed, two
// whose pushes are on their way. ReadSteps is how many steps behind the oldest of them
// rows are read: those, and the next two.
const (
	StepsAtWork = 4
	ReadSteps   = StepsAtWork + 1
)

// openStorage makes room for the lane's rows in each directory.
func (l *lane) openStorage() (err error) {
	c := l.cfg.Storage
	if c == nil {
		return nil
	}
	lanes := int64(l.cfg.Map.LanesOf(l.cfg.ID))
	if l.cfg.MaxBytes <= 0 {
		return errors.New("server: rows on disks need a bound of the memory: give --mem-budget")
	}
	s := &storage{}
	if c.Record != "" && l.global == 0 {
		if s.record, err = openRecord(c.Record); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = s.record.close() // the error that matters is err
			}
		}()
	}
	for _, d := range c.Dirs {
		dir := filepath.Join(d, l.cfg.folder(l.index))
		if err := emptyStale(dir); err != nil {
			return err
		}
		s.dirs = append(s.dirs, dir)
	}
	memory := l.cfg.MaxBytes / lanes
	buffer := 0 // as the disks like it
	if memory/bufferShare < int64(len(c.Dirs))*deviceBuffer {
		buffer = max(leastBuffer, int(memory/bufferShare)/len(c.Dirs)&^4095)
	}
	s.disks, err = tiers.OpenDisks(tiers.DisksConfig{Dirs: s.dirs, BufferBytes: buffer, Limit: c.LimitBytes / lanes,
		Expected: c.ExpectedBytes / int64(l.cfg.Map.Lanes()), Sharers: int(lanes), Wake: l.wakeDisks})
	if err != nil {
		return err
	}
	l.storage = s
	l.dropStale()
	return nil
}

// folder is the name of a lane's folder. Replicas of a group may share a disk.
func (c *Config) folder(lane int) string {
	if c.Chain != nil {
		return fmt.Sprintf("psrt-server%d-group%d", c.Chain.Self.Server, c.ID)
	}
	return fmt.Sprintf("psrt-server%d-lane%d", c.ID, lane)
}

// openTiered makes a table over the lane's disks. The buffers of these are part of
// the lane's memory.
func (l *lane) openTiered(spec table.Spec) (tiers.Rows, error) {
	room, err := l.tieredRoom(spec)
	if err != nil {
		return nil, err
	}
	return tiers.NewTiered(spec, l.cfg.Seed, l.tieredConfig(spec, room))
}

// wakeDisks is for the store's goroutines.
func (l *lane) wakeDisks() {
	if !l.disks.Swap(true) {
		l.mux.Wake()
	}
}

// close ends the store; the tables are closed before.
func (s *storage) close() error {
	if s == nil {
		return nil
	}
	err := errors.Join(s.disks.Close(), s.record.close())
	for _, dir := range s.dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// noteStorage tells what the first lane's rows lie on: the others' is the same.
func (s *Server) noteStorage() {
	if st := s.lanes[0].storage; st != nil && !s.cfg.Second {
		s.cfg.Note("rows that do not fit into memory lie on " + strings.Join(st.disks.Names(), "; "))
		for _, w := range st.disks.Warnings() {
			s.cfg.Warn(w)
		}
	}
}

// addTiers adds a lane's part of a table.
func addTiers(t *psmsg.TableStats, s tiers.Stats) {
	if t.Tiers == nil {
		t.Tiers = &psmsg.TierStats{}
	}
	d := t.Tiers
	d.RowsInMemory += int64(s.InMemory)
	d.Hits += s.Hits
	d.Misses += s.Misses
	d.DiskReads += s.DiskReads
	d.DiskWrites += s.DiskWrites
	d.SyncReads += s.SyncReads
	d.Evicted += s.Evicted
	d.PrefetchedRows += s.PrefetchedRows
	d.DiskBytes += s.DiskBytes
}
