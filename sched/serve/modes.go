package serve

import (
	"maps"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// checkModes refuses a TableSync of what there is not, or that servers cannot keep.
func (c *Config) checkModes() error {
	for _, name := range slices.Sorted(maps.Keys(c.TableSync)) {
		m := c.TableSync[name]
		refuse := func(why string) error { return &InputError{Path: "--table-sync " + name + "=" + m.String(), Msg: why} }
		if err := m.Check(); err != nil {
			return refuse(err.Error())
		}
		_, there := c.number(name)
		switch {
		case !there:
			return refuse("the tables file describes no such table (those that trainers describe have --sync); name one of its tables, or " + server.DenseName + " where it has a dense vector")
		case m.BSP() != (c.Staleness == 0):
			return refuse("trainers keep what they push in bsp until they end the step, for all tables or for none; give all tables bsp, by --sync bsp, or none")
		}
	}
	return nil
}

// modes is TableSync by number.
func (c *Config) modes() map[uint32]clock.Mode {
	if len(c.TableSync) == 0 {
		return nil
	}
	of := map[uint32]clock.Mode{}
	for name, m := range c.TableSync {
		id, _ := c.number(name)
		of[id] = m
	}
	return of
}

// number is a table's. A table may be called as the dense vector is, which then has
// no name.
func (c *Config) number(name string) (id uint32, there bool) {
	if i := slices.IndexFunc(c.Tables.Specs, func(s table.Spec) bool { return s.Name == name }); i >= 0 {
		return c.Tables.Specs[i].ID, true
	}
	return psmsg.DenseLead, name == server.DenseName && c.Tables.Dense.Floats > 0
}
