package kv

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// Table is one sparse table of the job. It ends with its Client.
type Table struct {
	c        *Client
	spec     table.Spec
	rowBytes int
	sets     sets
	tickets  tickets
	opening  chan struct{} // closed when err and spec are known
	err      error

	mu    sync.Mutex
	steps []chunk // of a bsp step, not pushed yet

	checks atomic.Bool // a push of the bsp step has CheckFinite
}

// Spec is the table as the servers have it.
func (t *Table) Spec() table.Spec { return t.spec }

// RowBytes is the size of a row at a server, with the optimizer's state.
func (t *Table) RowBytes() int { return t.rowBytes }

// Table opens a table by name: the servers', or one that the configuration
// describes and that they make. The same name gives the same Table.
func (c *Client) Table(name string) (*Table, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	c.mu.Lock()
	t := c.tables[name]
	if t != nil {
		c.mu.Unlock()
		<-t.opening
		return t, t.err
	}
	t = &Table{c: c, opening: make(chan struct{})}
	c.tables[name] = t
	c.mu.Unlock()
	defer close(t.opening)
	if t.err = c.openTable(t, name); t.err != nil {
		c.mu.Lock()
		delete(c.tables, name) // the next one may have more luck
		c.mu.Unlock()
		return nil, t.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.sets.table = t
	c.order = append(c.order, t)
	if c.tick == nil {
		c.tick = c.c.NewLeanRows(t.spec)
	}
	return t, nil
}

func (c *Client) openTable(t *Table, name string) error {
	req := psmsg.TableRequest{Name: name}
	if i := slices.IndexFunc(c.cfg.Tables, func(s table.Spec) bool { return s.Name == name }); i >= 0 {
		req.Spec = &c.cfg.Tables[i]
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout(0))
	defer cancel()
	for i := range c.c.Servers() {
		rep, err := askTable(req, func(method string, req, resp any) error { return c.call(ctx, i, method, req, resp) })
		if err != nil {
			return err
		}
		if i > 0 && !rep.Spec.Equal(t.spec) {
			return errorf(Mismatch, "kv: server 0 has table %q as %+v, server %d as %+v: give all servers the same tables", name, t.spec, i, rep.Spec)
		}
		t.spec, t.rowBytes = rep.Spec, rep.RowBytes
	}
	return nil
}

type caller func(method string, req, resp any) error

func askTable(req psmsg.TableRequest, call caller) (psmsg.TableReply, error) {
	var rep psmsg.TableReply
	if err := call(psmsg.MethodTable, req, &rep); err != nil {
		return rep, err
	}
	codes := map[psmsg.TableCode]Code{psmsg.TableMissing: NoTable, psmsg.TableMismatch: Mismatch, psmsg.TableInvalid: BadConfig}
	if rep.Refused != "" {
		code, ok := codes[rep.Code]
		if !ok {
			code = Refused
		}
		return rep, errorf(code, "kv: %s", rep.Refused)
	}
	if err := rep.Spec.Validate(); err != nil {
		return rep, errorf(Refused, "kv: a server describes a table that cannot be: %w", err)
	}
	return rep, nil
}

// reopen makes sure that a server has the table as it was opened.
func (t *Table) reopen(call caller) error {
	rep, err := askTable(psmsg.TableRequest{Name: t.spec.Name, Spec: &t.spec}, call)
	if err == nil && rep.Spec.ID != t.spec.ID {
		err = errorf(Mismatch, "kv: table %q had number %d and has %d now", t.spec.Name, t.spec.ID, rep.Spec.ID)
	}
	return err
}

// call calls a control method of one server; ctx bounds it.
func (c *Client) call(ctx context.Context, server int, method string, req, resp any) error {
	if c.job.Chains != nil {
		return c.callGroup(ctx, server, method, req, resp)
	}
	c.mu.Lock()
	conn, lost := c.c.Control(server), c.lost[server]
	c.mu.Unlock()
	if lost != nil {
		return errorf(Connect, "kv: %s: %w", method, lost)
	}
	err := conn.Call(ctx, method, req, resp)
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return errClosed
	}
	select {
	case <-conn.Done():
		c.noticeLoss()
		return errorf(Connect, "kv: server %d was lost during %s: %w", server, method, err)
	default:
	}
	return coded(err, openCode(err))
}

// callGroup is call in a job with replicas: what may be asked twice, is, of whoever
// is the group's head then.
func (c *Client) callGroup(ctx context.Context, group int, method string, req, resp any) error {
	err := c.c.CallServer(ctx, group, method, req, resp)
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return errClosed
	}
	return coded(err, openCode(err))
}

// noticeLoss begins the repair of connections that have ended.
func (c *Client) noticeLoss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil && c.over() == nil {
		c.settle()
	}
}

// deadline is when a call that begins now must be done.
func (c *Client) deadline(limit time.Duration) time.Time { return time.Now().Add(c.timeout(limit)) }
