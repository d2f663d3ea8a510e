package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"psrt/tiers/blk"
	"psrt/tiers/ssd"
	"psrt/tiers/table"
)

// DisksConfig says where one lane's tables have their rows on disk.
type DisksConfig struct {
	// Dirs are directories of the lane's own, one on each device; rows are striped
	// over them.
	Dirs []string
	// Limit is the most bytes on all of them together, 0 for what there is.
	// Expected is how many bytes all rows will have, to be warned early.
	Limit, Expected int64
	// Keep makes a store that outlives the process: rows of the last Commit are
	// there when it is opened again. Otherwise it is emptied when it is opened.
	Keep bool
	// BufferBytes is the memory for each device, 0 for ssd's own choice; it is
	// beside the tables' budgets.
	BufferBytes int
	// Sharers is how many stores are on the same devices, 0 for one alone. Together they
	// ask for no more at once than a disk takes (queue depth): who asks for more sleeps
	// in the kernel.
	Sharers int
	// Engine chooses how devices are driven, "" the best that works.
	Engine string
	// Wake is called, from any goroutine, whenever Poll may find something.
	Wake func()
	// Silence is how long a device may owe answers until lookups that wait fail with
	// an *ssd.SilentError, 0 for a minute.
	Silence time.Duration
}

// Disks are what one lane's tables share: a store on disks. Calls belong to the
// lane's goroutine.
type Disks struct {
	store  *ssd.Store
	names  []string
	buffer int64
	rec    ssd.Recovery
	tables map[*ssd.Log]*Tiered
	order  []*Tiered
	out    []*Lookup
	done   uint64 // number of the last commit that is durable
	failed error  // of the last commit that is not
	wake   func()

	silence silence
}

// OpenDisks opens a lane's store. It waits for the disks.
func OpenDisks(cfg DisksConfig) (*Disks, error) {
	var devs []blk.Device
	shut := func(err error) error {
		for _, dev := range devs {
			err = errors.Join(err, dev.Close())
		}
		return err
	}
	for _, dir := range cfg.Dirs {
		dev, err := blk.Open(dir, blk.Config{Engine: cfg.Engine, Depth: Depth(cfg.Sharers)})
		if err != nil {
			return nil, shut(err)
		}
		devs = append(devs, dev)
	}
	return NewDisks(devs, cfg)
}

// Depth is how many requests a store should have under way on a device that it
// shares with so many.
func Depth(sharers int) int {
	const most, least = 128, 24
	return max(least, most/max(1, sharers))
}

// NewDisks is OpenDisks with devices that are open already, whatever cfg.Dirs
// says. It takes them over.
func NewDisks(devs []blk.Device, cfg DisksConfig) (d *Disks, err error) {
	d = &Disks{tables: map[*ssd.Log]*Tiered{}, wake: cfg.Wake, silence: silence{most: cmp.Or(cfg.Silence, silenceMost)}}
	for _, dev := range devs {
		d.names = append(d.names, dev.String())
	}
	d.store, d.rec, err = ssd.Open(devs, ssd.Config{Limit: cfg.Limit, Expected: cfg.Expected, Scratch: !cfg.Keep, BufferBytes: cfg.BufferBytes})
	if err != nil {
		return nil, err
	}
	d.buffer = d.store.Stats().Memory
	if cfg.Wake != nil {
		d.store.OnResult(cfg.Wake)
	}
	return d, nil
}

// Bytes is the memory of the disks' buffers, which no table's budget has.
func (d *Disks) Bytes() int64 { return d.buffer }

// Warnings are what the user should know about the disks; Names, what they are.
func (d *Disks) Warnings() []string { return d.rec.Warnings }

// Names says of each device what it is.
func (d *Disks) Names() []string { return d.names }

// Silent is the first of them that has owed an answer for least and given none; "": none.
func (d *Disks) Silent(least time.Duration) string {
	var silent *ssd.SilentError
	if errors.As(d.store.Silent(least), &silent) {
		return silent.Device
	}
	return ""
}

// Recovered is the commit that the store was opened at and its note; 0 for an
// empty store.
func (d *Disks) Recovered() (number uint64, note []byte) { return d.rec.Commit, d.rec.Note }

// Stats is the store's.
func (d *Disks) Stats() ssd.Stats { return d.store.Stats() }

// Commit makes durable what the tables have on disk now; flush them first. It
// does not wait: Committed tells.
func (d *Disks) Commit(note []byte) (number uint64, err error) { return d.store.Commit(note) }

// Committed is the number of the last commit that is durable, and why the last
// one that is not failed.
func (d *Disks) Committed() (number uint64, err error) { return d.done, d.failed }

// Poll is Poll of all tables at once: it gives lookups of any of them.
func (d *Disks) Poll() []*Lookup {
	d.route()
	d.out = d.out[:0]
	for _, t := range d.order {
		if t.isActive() {
			t.goOnAll()
			d.out = append(d.out, t.takeEnded()...)
		}
	}
	return d.out
}

// route gives the tables what the disks have done.
func (d *Disks) route() {
	e := d.store.Poll()
	for i := range e.Reads {
		r := &e.Reads[i]
		if t := d.tables[r.Log]; t != nil {
			t.readDone(r.ID, r.Key, r.Err)
		}
	}
	for _, c := range e.Commits {
		if c.Err != nil {
			d.failed = c.Err
			continue
		}
		d.done, d.failed = c.Number, nil
	}
	d.heed()
}

// Close ends the store. The tables are closed before.
func (d *Disks) Close() error {
	d.silence.stop()
	return d.store.Close()
}

// NewTiered makes a table over cfg.Disks: empty, or with the rows of the commit
// that the disks were opened at.
func NewTiered(spec table.Spec, seed uint64, cfg Config) (*Tiered, error) {
	d := cfg.Disks
	if d == nil {
		return nil, fmt.Errorf("tiers: table %q: no disks are given", spec.Name)
	}
	if cfg.Wake == nil {
		cfg.Wake = d.wake
	}
	var log *ssd.Log
	t, err := newTiered(spec, seed, cfg, func(t *Tiered) (disk, error) {
		l, err := d.store.Log(fmt.Sprintf("t%d", spec.ID), ssd.LogConfig{
			RecordBytes: 4 * spec.RowFloats(),
			Expect:      t.expect,
			Recover:     t.recovered,
			Gone:        t.gone,
			Moved:       t.moved,
			Slot:        t.slotOf,
		})
		log = l
		return &logOnDisks{d: d, log: l}, err
	})
	if err != nil {
		return nil, err
	}
	d.tables[log] = t
	d.order = append(d.order, t)
	return t, nil
}

// Flush writes rows that the disk does not have, about max of them; more: there
// are others. They stay in memory.
func (t *Tiered) Flush(max int) (more bool, err error) {
	if err := t.isClosed(); err != nil {
		return false, err
	}
	for n, c := range t.led.chunks {
		if c == nil {
			continue
		}
		for i, flags := range c.flags {
			if flags&(flagLive|flagDirty) != flagLive|flagDirty {
				continue
			}
			if max--; max < 0 {
				return true, nil
			}
			slot, err := t.disk.Append(c.keys[i], bytesOf(t.row(uint32(n)<<t.rows.Shift+uint32(i))))
			if errors.Is(err, ErrBusy) {
				return true, nil
			}
			if err != nil {
				return true, err
			}
			t.stats.DiskWrites++
			c.slots[i] = slot
			c.flags[i] &^= flagDirty
		}
	}
	return false, nil
}

// isActive says whether Poll has anything to go on with.
func (t *Tiered) isActive() bool {
	return !t.closed && (len(t.ended) > 0 || len(t.jobs) > 0 || len(t.queue)+len(t.calm) > 0 || t.drain.on || t.busy || t.belady != nil && t.aheadEnds() > t.ahead.batch)
}

// logOnDisks is one table's disk.
type logOnDisks struct {
	d   *Disks
	log *ssd.Log
}

func (l *logOnDisks) Append(key uint64, row []byte) (uint32, error) {
	slot, err := l.log.Append(key, row)
	return slot, diskError(err)
}

func (l *logOnDisks) Delete(key uint64) error { return diskError(l.log.Delete(key)) }

// diskError says a disk's error in the words of tables.
func diskError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ssd.ErrBusy):
		return ErrBusy
	case errors.Is(err, ssd.ErrFull):
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}

func (l *logOnDisks) Read(rs []ssd.Read) int {
	defer l.d.listen()
	return l.log.Read(rs)
}

func (l *logOnDisks) Free(slot uint32)    { l.log.Free(slot) }
func (l *logOnDisks) Reset() error        { return l.log.Reset() }
func (l *logOnDisks) poll()               { l.d.route() }
func (l *logOnDisks) room() (int64, bool) { return l.log.Room() }
func (l *logOnDisks) bytes() int64        { return l.d.store.Stats().DiskBytes }
