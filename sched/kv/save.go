package kv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"psrt/sched/client"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
	"psrt/tiers/ckpt"
	"psrt/tiers/localpath"
	"psrt/tiers/table"
)

// defaultWhole is how long saving or loading may take where the call does not say.
const defaultWhole = 10 * time.Minute

// SaveOptions change Save and Load.
type SaveOptions struct {
	Timeout     time.Duration // 0: ten minutes
	WeightsOnly bool          // leave the optimizer's state out
	// Meta is kept with what is saved: JSON, or nothing.
	Meta json.RawMessage
	// Partly has Load leave tables as they are that the model lacks.
	Partly bool
}

func (o *SaveOptions) context(c *Client) (context.Context, context.CancelFunc) {
	if o.Timeout <= 0 {
		o.Timeout = defaultWhole
	}
	return context.WithTimeout(c.ctx, min(o.Timeout, maxTimeout))
}

// each calls a method of every server at once.
func each[R any](ctx context.Context, c *Client, method string, req any) ([]R, error) {
	out := make([]R, c.c.Servers())
	errs := make([]error, len(out))
	var all sync.WaitGroup
	for i := range out {
		errs[i] = errPanicked // what remains where it panics
		all.Go(c.guarded(func() { errs[i] = c.call(ctx, i, method, req, &out[i]) }))
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Save writes all tables and the dense vector to a directory that the servers see
// under the same name.
func (c *Client) Save(dir string, o SaveOptions) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	dir, err := whole(dir)
	if err != nil {
		return err
	}
	if location, number := ckpt.SplitPlace(dir); number > 0 {
		return errorf(Invalid, "kv: psrt reads the name %s as generation %d of %s: save to a name that does not end in @%d", dir, number, location, number)
	}
	ctx, cancel := o.context(c)
	defer cancel()
	in, err := ckpt.Begin(dir)
	if unfit := (*ckpt.PlaceError)(nil); errors.As(err, &unfit) {
		return &Error{Invalid, err}
	}
	if err != nil {
		return &Error{IO, err}
	}
	defer in.Abort()
	replies, err := each[psmsg.SaveReply](ctx, c, psmsg.MethodSave, psmsg.SaveRequest{Dir: in.Path(), WeightsOnly: o.WeightsOnly})
	if err != nil {
		return err
	}
	m := ckpt.Manifest{Meta: o.Meta, WeightsOnly: o.WeightsOnly, Slots: c.job.Map.Slots}
	var sum table.Digest
	for i, r := range replies {
		var mine []ckpt.Part
		if err := json.Unmarshal(r.Parts, &mine); err != nil {
			return errorf(Refused, "kv: server %d's answer to save is not understood: %w", i, err)
		}
		m.Parts = append(m.Parts, mine...)
		var d table.Digest
		if n, err := hex.Decode(d[:], []byte(r.Digest)); err != nil || n != len(d) {
			return errorf(Refused, "kv: server %d's digest %q is none", i, r.Digest)
		}
		sum.Add(d)
	}
	if m.Lifecycle, err = psmsg.MergeLifecycles(replies); err != nil {
		return errorf(Refused, "kv: the servers do not agree: %w; one worker of the job calls shrink and end of day", err)
	}
	slices.SortFunc(m.Parts, func(a, b ckpt.Part) int { return int(int64(a.Table) - int64(b.Table)) })
	m.Digest = sum.String()
	if m.Tables, err = c.serverTables(ctx); err != nil {
		return err
	}
	m.Tables = slices.DeleteFunc(m.Tables, func(t table.Spec) bool { // made meanwhile
		return !slices.ContainsFunc(m.Parts, func(p ckpt.Part) bool { return p.Table == t.ID && !p.Dense })
	})
	if n := c.job.DenseLen; n > 0 {
		m.Dense = []ckpt.DenseSpec{{Name: "dense", ID: psmsg.DenseID, Elements: int64(n)}}
	}
	if err := in.Commit(m); err != nil {
		return &Error{IO, err}
	}
	return nil
}

// serverTables is all tables that the servers hold now, other trainers' too.
func (c *Client) serverTables(ctx context.Context) ([]table.Spec, error) {
	var rep psmsg.DescribeReply
	if err := c.call(ctx, 0, psmsg.MethodDescribe, struct{}{}, &rep); err != nil {
		return nil, err
	}
	slices.SortFunc(rep.Tables, func(a, b table.Spec) int { return int(int64(a.ID) - int64(b.ID)) })
	return rep.Tables, nil
}

// Load replaces the rows of all tables by those of a saved model.
func (c *Client) Load(dir string, o SaveOptions) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	dir, err := whole(dir)
	if err != nil {
		return err
	}
	ctx, cancel := o.context(c)
	defer cancel()
	m, err := ckpt.Open(dir)
	if err != nil {
		return &Error{IO, err}
	}
	tables, err := c.serverTables(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		saved := m.Spec(t.ID)
		switch {
		case saved == nil && o.Partly:
		case saved == nil:
			return errorf(Mismatch, "kv: the model in %s has no table %q, which the servers have", dir, t.Name)
		case !saved.SameRows(t) && (saved.Lifecycle != nil || t.Lifecycle != nil):
			return errorf(Mismatch, "kv: table %q of the model in %s has another lifecycle than the servers' (%s there, %s here)", t.Name, dir, saved.Effective(), t.Effective())
		case saved.Dim != t.Dim || saved.Optimizer.Kind != t.Optimizer.Kind:
			return errorf(Mismatch, "kv: table %q is dim %d, optimizer %s at the servers; the model in %s has dim %d, optimizer %s",
				t.Name, t.Dim, t.Optimizer.Name(), dir, saved.Dim, saved.Optimizer.Name())
		}
	}
	if !m.Marked() { // a part of another model would be found when rows have been replaced
		if err := m.Verify(ctx, runtime.NumCPU()); err != nil {
			return &Error{IO, err}
		}
	}
	_, err = each[struct{}](ctx, c, psmsg.MethodLoad, psmsg.LoadRequest{Dir: dir})
	return err
}

// whole makes dir absolute: servers work elsewhere.
func whole(dir string) (string, error) {
	if dir == "" {
		return "", errorf(Invalid, "kv: the directory's name is empty")
	}
	if err := localpath.Check(dir); err != nil {
		return "", errorf(Invalid, "kv: %w", err)
	}
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", &Error{IO, err}
	}
	return filepath.Join(wd, dir), nil
}

// Report is what StatsJSON gives.
type Report struct {
	Worker    int      `json:"worker"`
	Workers   int      `json:"workers"`
	Step      uint64   `json:"step"`
	Sync      string   `json:"sync"`
	Client    Stats    `json:"client"`
	Transport []string `json:"transports"`
	// Readers are connections to members of chains that are no heads, for pulls (read: any).
	Readers int `json:"readers,omitempty"`
	// Hot counts rows of pulls that may be answered by kept values (hot_rows).
	Hot     *client.HotStats  `json:"hot_rows,omitempty"`
	Servers []json.RawMessage `json:"servers"`
	Waits   []stall.Wait      `json:"waits,omitempty"`  // beyond stall_after
	Beside  any               `json:"device,omitempty"` // the companion's
}

// StatsJSON is counts and facts about client and servers.
func (c *Client) StatsJSON(limit time.Duration) ([]byte, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout(limit))
	defer cancel()
	servers, err := each[json.RawMessage](ctx, c, psmsg.MethodStats, struct{}{})
	if err != nil {
		return nil, err
	}
	r := Report{Worker: c.cfg.Worker, Workers: c.job.Workers, Sync: "ssp", Servers: servers, Waits: c.stall.Current(ctx)}
	switch c.job.Staleness {
	case 0:
		r.Sync = "bsp"
	case -1:
		r.Sync = "asp"
	}
	c.mu.Lock()
	r.Step, r.Client, r.Transport, r.Readers = c.step, c.stats, c.c.Transports(), c.c.Readers()
	if c.cfg.HotRows > 0 {
		hot := c.c.HotRows()
		r.Hot = &hot
	}
	r.Client.CopiedBytes = c.copied.Load()
	c.mu.Unlock()
	if c.beside != nil {
		r.Beside = c.beside.Report()
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, &Error{Internal, err}
	}
	return b, nil
}
