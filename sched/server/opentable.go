package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// MaxTables bounds the tables that trainers can have a server make.
const MaxTables = 1024

// openTable finds a table by name, or makes it on every lane.
func (s *Server) openTable(ctx context.Context, r psmsg.TableRequest) (psmsg.TableReply, error) {
	s.openMu.Lock()
	defer s.openMu.Unlock()
	tables := s.Tables()
	refuse := func(code psmsg.TableCode, format string, args ...any) (psmsg.TableReply, error) {
		return psmsg.TableReply{Code: code, Refused: fmt.Sprintf(format, args...)}, nil
	}
	if i := slices.IndexFunc(tables, func(t table.Spec) bool { return t.Name == r.Name }); i >= 0 {
		have := tables[i]
		if r.Spec != nil && !sameTable(have, *r.Spec) {
			return refuse(psmsg.TableMismatch, "table %q is %s at %s; asked for is %s", r.Name, describeTable(have), s.cfg.name(), describeTable(*r.Spec))
		}
		return psmsg.TableReply{Spec: have, RowBytes: have.RowBytes()}, nil
	}
	switch {
	case r.Spec == nil:
		return refuse(psmsg.TableMissing, "%s has no table %q (it has %s); describe it in the client's tables, or in the servers'", s.cfg.name(), r.Name, tableNames(tables))
	case s.cfg.Trainers.NewTable == nil:
		return refuse(psmsg.TableMissing, "%s has no table %q (it has %s) and makes none", s.cfg.name(), r.Name, tableNames(tables))
	case len(tables) >= MaxTables:
		return refuse(psmsg.TableInvalid, "%s has %d tables already, the limit: table %q is not made", s.cfg.name(), MaxTables, r.Name)
	}
	if err := s.cfg.Trainers.NewTable(&r); err != nil {
		return refuse(psmsg.TableInvalid, "%s: table %q: %v", s.cfg.name(), r.Name, err)
	}
	spec := *r.Spec
	if spec.Name = r.Name; spec.ID == 0 { // a saved model says which: rows are born from it
		spec.ID = psmsg.TableID(r.Name)
	}
	if err := spec.Validate(); err != nil {
		return refuse(psmsg.TableInvalid, "%s: %v", s.cfg.name(), err)
	}
	if i := slices.IndexFunc(tables, func(t table.Spec) bool { return t.ID == spec.ID }); i >= 0 {
		return refuse(psmsg.TableInvalid, "%s: the names %q and %q give the same table number %d; rename one", s.cfg.name(), r.Name, tables[i].Name, spec.ID)
	}
	if s.cfg.Chain != nil {
		if _, err := s.lanes[0].chain.order(ctx, commandTimeout, order{Table: &spec}); err != nil {
			return psmsg.TableReply{}, err
		}
		return psmsg.TableReply{Spec: spec, RowBytes: spec.RowBytes()}, nil
	}
	if err := s.each(func(l *lane) error { return l.addTable(spec) }); err != nil {
		_ = s.each(func(l *lane) error { l.removeTable(spec.ID); return nil })
		return psmsg.TableReply{}, fmt.Errorf("%s: making table %q: %w", s.cfg.name(), r.Name, err)
	}
	s.tableMade(spec)
	return psmsg.TableReply{Spec: spec, RowBytes: spec.RowBytes()}, nil
}

// tableMade notes a table that there is from now on.
func (s *Server) tableMade(spec table.Spec) {
	s.tablesMu.Lock()
	s.tables = append(s.tables, spec)
	s.tablesMu.Unlock()
}

func tableNames(tables []table.Spec) string {
	if len(tables) == 0 {
		return "none"
	}
	names := ""
	for i, t := range tables {
		if i == 10 {
			return fmt.Sprintf("%s and %d more", names, len(tables)-i)
		}
		if i > 0 {
			names += ", "
		}
		names += t.Name
	}
	return names
}

// sameTable compares what two descriptions mean. Names and numbers are the
// caller's affair.
func sameTable(a, b table.Spec) bool {
	plain := func(s table.Spec) table.Spec {
		s.Name, s.ID, s.Init, s.Optimizer = "", 0, s.Birth(), asAsked(s.Optimizer)
		return s
	}
	return plain(a).Equal(plain(b))
}

// asAsked leaves out what a rule's library says about itself.
func asAsked(o table.Optimizer) table.Optimizer {
	o.Rule, o.State, o.Ordered = "", 0, false
	return o.WithDefaults()
}

func describeTable(s table.Spec) string {
	o, i := asAsked(s.Optimizer), s.Birth()
	text := fmt.Sprintf("dim %d, optimizer %s", s.Dim, s.Optimizer.Name())
	for _, f := range []struct {
		name string
		v    float32
	}{{"lr", o.LR}, {"beta1", o.Beta1}, {"beta2", o.Beta2}, {"eps", o.Eps}, {"beta", o.Beta}, {"l1", o.L1}, {"l2", o.L2}, {"initial_accumulator", o.InitialAccumulator}} {
		if f.v != 0 {
			text += fmt.Sprintf(" %s %g", f.name, f.v)
		}
	}
	if o.Library != "" {
		text += fmt.Sprintf(" library %s params %q", o.Library, o.Params)
	}
	text += ", init " + i.Kind
	if i.Kind != table.InitZero {
		text += fmt.Sprintf(" scale %g", i.Scale)
	}
	if i.ZeroPrefix > 0 {
		text += fmt.Sprintf(" zero_prefix %d", i.ZeroPrefix)
	}
	if s.Lifecycle != nil {
		text += ", lifecycle " + s.Effective()
	}
	return text
}

// addTable makes a table in a lane that serves already.
func (l *lane) addTable(spec table.Spec) error {
	t := &tableState{spec: spec, sync: newSync(l.cfg, spec.ID)}
	if err := l.openRows(t); err != nil {
		return err
	}
	l.tables[spec.ID] = t
	at, _ := slices.BinarySearchFunc(l.order, spec.ID, func(t *tableState, id uint32) int { return cmp.Compare(t.spec.ID, id) })
	l.order = slices.Insert(l.order, at, t)
	return nil
}

// removeTable takes back what addTable did, where another lane's failed.
func (l *lane) removeTable(id uint32) {
	t := l.tables[id]
	if t == nil {
		return
	}
	delete(l.tables, id)
	l.order = slices.DeleteFunc(l.order, func(o *tableState) bool { return o == t })
	t.rows.Close()
}
