package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"psrt/sched/audit"
	"psrt/tiers/accessor"
)

// InputError marks an error as the input's fault.
type InputError struct{ Err error }

func (e *InputError) Error() string  { return e.Err.Error() }
func (e *InputError) Unwrap() error  { return e.Err }
func (e *InputError) BadInput() bool { return true }

// Options change what is judged.
type Options struct {
	// Promise is the staleness to judge by (0 BSP, -1 ASP), nil that of the job.
	Promise *int
	// Run is the one run to be judged, "" for all.
	Run string
}

// Dir judges every run that has records in a directory.
func Dir(ctx context.Context, dir string, opt Options) (*Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &InputError{fmt.Errorf("audit: %w", err)}
	}
	byRun := map[string][]*audit.Reader{}
	defer func() {
		for _, files := range byRun {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), audit.Ext) {
			continue
		}
		f, err := audit.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, &InputError{err}
		}
		byRun[f.Header.Run] = append(byRun[f.Header.Run], f)
	}
	if opt.Run != "" && byRun[opt.Run] == nil && len(byRun) > 0 {
		return nil, &InputError{fmt.Errorf("audit: %s has no records of run %s, but of %s", dir, opt.Run, strings.Join(sorted(byRun), ", "))}
	}
	if len(byRun) == 0 {
		return nil, &InputError{fmt.Errorf("audit: no records (*%s) in %s; psrt train --audit %s writes them", audit.Ext, dir, dir)}
	}
	rep := &Report{Dir: dir, Consistent: true}
	for _, name := range sorted(byRun) {
		if opt.Run != "" && name != opt.Run {
			continue
		}
		run, err := judgeRun(ctx, name, byRun[name], opt.Promise)
		if err != nil {
			return nil, err
		}
		rep.Runs = append(rep.Runs, run)
		rep.Consistent = rep.Consistent && run.Consistent
	}
	if !slices.ContainsFunc(rep.Runs, func(r *Run) bool { return r.Workers > 0 }) {
		return nil, lanesOnly(rep.Runs[0].Run)
	}
	return rep, nil
}

func lanesOnly(run string) error {
	return &InputError{fmt.Errorf("audit: run %s has records of lanes only: put those of its workers' hosts into the same directory", run)}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// place is a record in a file.
type place struct {
	file int
	at   int64
}

// source is a file with what is known of its end.
type source struct {
	*audit.Reader
	end string // why it ended before its process did; "" where nothing is missing
	// closed: its process ended as it should. What a killed one recorded is whole, but
	// a machine that lost power may have kept less than its others saw.
	closed bool
}

// run is all records of one run, indexed.
type run struct {
	ctx     context.Context
	out     *Run
	files   []*source
	head    *audit.LaneHeader // the first lane's: what all agree upon
	rate    float64
	promise *int // staleness to judge all tables by; nil: each table's own
	workers map[client]*source
	tables  map[tableKey]*history
	keys    map[uint64]struct{}
	lives   map[uint32]lifeOf // by table: as the first lane of it has it
}

// lifeOf is what one lane let happen to a table's rows.
type lifeOf struct {
	lane   uint32
	events []accessor.Event
}

// client is a process that is a worker; see run.who.
type client struct {
	worker uint32
	client uint64
}

type tableKey struct {
	lane  uint32
	table uint32
}

func judgeRun(ctx context.Context, name string, files []*audit.Reader, promise *int) (*Run, error) {
	r := &run{ctx: ctx, out: &Run{Run: name}, workers: map[client]*source{}, tables: map[tableKey]*history{}, keys: map[uint64]struct{}{}, lives: map[uint32]lifeOf{}}
	lanes, workers := map[int]bool{}, map[int]bool{}
	for _, f := range files {
		h := &f.Header
		r.files = append(r.files, &source{Reader: f})
		switch {
		case r.rate == 0:
			r.rate = h.Rate
		case r.rate != h.Rate:
			return nil, &InputError{fmt.Errorf("audit: %s has %v of the keys, another file of run %s %v: they are of different jobs", f.Path(), h.Rate, name, r.rate)}
		}
		switch {
		case h.Worker != nil:
			workers[h.Worker.Worker] = true
		case r.head == nil:
			r.head = h.Lane
			fallthrough
		default:
			lanes[h.Lane.Lane] = true
			if h.Lane.Staleness != r.head.Staleness || !maps.Equal(h.Lane.Modes, r.head.Modes) || h.Lane.Workers != r.head.Workers || h.Lane.Seed != r.head.Seed ||
				!slices.Equal(h.Lane.Merges, r.head.Merges) || !reflect.DeepEqual(h.Lane.Tables, r.head.Tables) {
				return nil, &InputError{fmt.Errorf("audit: %s describes another job than lane %d does, though both are of run %s", f.Path(), r.head.Lane, name)}
			}
		}
	}
	if r.head == nil {
		return nil, &InputError{fmt.Errorf("audit: run %s has records of workers only: put those of its servers' hosts into the same directory", name)}
	}
	if len(workers) == 0 {
		if !r.head.Open {
			return nil, lanesOnly(name)
		}
		r.note("no trainer of this run has recorded: what its %d lanes took is not judged (audit: DIR in a trainer's configuration)", len(lanes))
	}
	for w := range r.head.Workers {
		if !workers[w] && !r.head.Open {
			r.note("there is no record of worker %d: what it pulled is not judged, nor values after its first push", w)
		}
	}
	r.promise = promise
	r.out.Consistency, r.out.Workers, r.out.Lanes = r.promised(), len(workers), len(lanes)
	for i := range r.files {
		if err := r.index(i); err != nil {
			return nil, err
		}
	}
	for _, k := range r.order() {
		if err := r.judge(k); err != nil {
			return nil, err
		}
	}
	r.out.Keys = len(r.keys)
	r.out.Consistent = r.out.Broken == 0
	return r.out, nil
}

// promiseOf is the staleness that a table is judged by.
func (r *run) promiseOf(table uint32) int {
	if r.promise != nil {
		return *r.promise
	}
	return r.head.StalenessOf(table)
}

// promised is what the run is judged by, in words.
func (r *run) promised() string {
	if r.promise != nil || len(r.head.Modes) == 0 {
		return ModeOf(r.promiseOf(audit.DenseTable))
	}
	var words []string
	for i := range r.head.Tables {
		words = append(words, ModeOf(r.head.StalenessOf(r.head.Tables[i].ID)))
	}
	words = append(words, ModeOf(r.head.StalenessOf(audit.DenseTable)))
	if !slices.ContainsFunc(words, func(w string) bool { return w != words[0] }) {
		return words[0]
	}
	for i := range r.head.Tables {
		words[i] = r.head.Tables[i].Name + " " + words[i]
	}
	words[len(words)-1] = r.tableName(audit.DenseTable) + " " + words[len(words)-1]
	return strings.Join(words, ", ")
}

// order is the tables of all lanes, one after the other.
func (r *run) order() []tableKey {
	keys := make([]tableKey, 0, len(r.tables))
	for k := range r.tables {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b tableKey) int {
		if a.lane != b.lane {
			return int(a.lane) - int(b.lane)
		}
		return int(int64(a.table) - int64(b.table))
	})
	return keys
}

func (r *run) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(r.out.Notes, n) {
		r.out.Notes = append(r.out.Notes, n)
	}
}

// read reads a record again.
func (r *run) read(p place, rec *audit.Record) error { return r.files[p.file].ReadAt(p.at, rec) }

// each calls f for all records of a file.
func (r *run) each(i int, f func(at place, rec *audit.Record)) error {
	src := r.files[i]
	var rec audit.Record
	for n := 0; ; n++ {
		if n%4096 == 0 && r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		at, err := src.Next(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if rec.Kind == audit.End {
			src.closed = rec.Code == audit.Closed
			switch rec.Code {
			case audit.Full:
				src.end = "it reached its limit; a larger --audit-limit, or a lower --audit-rate, records more"
			case audit.NoRoom:
				src.end = "its disk took no more"
			}
			continue
		}
		f(place{i, at}, &rec)
	}
	switch {
	case src.Torn() != nil:
		src.end = src.Torn().Error()
		r.note("%s", src.end)
	case src.end != "":
		r.note("%s ends early: %s", filepath.Base(src.Path()), src.end)
	case !src.closed:
		r.note("%s was not closed: its process was killed, or still runs; what it recorded is whole", filepath.Base(src.Path()))
	}
	return nil
}
