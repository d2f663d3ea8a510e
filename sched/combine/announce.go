package combine

import "psrt/sched/client"

// notice is what all members announce of a step, as one.
type notice struct {
	rows  *client.Rows // keys only
	index [][]int32
	call  client.Call
}

// announce tells the servers of the step that all members have announced.
func (h *Hub) announce(asked []pending) error {
	n := h.unused()
	err := h.inside(asked, sparse, func(memory [][]byte) error {
		keys := make([][]uint64, len(asked))
		for i, p := range asked {
			keys[i] = keysAt(memory[i], p.sparse.Keys, p.rows)
			n.index[i] = grow(n.index[i], p.rows)
		}
		return n.rows.Plan(keys, n.index)
	})
	if err != nil {
		return err
	}
	if err := h.c.Announce(n.rows, asked[0].clock, &n.call); err != nil {
		return err
	}
	for i, e := range h.ends { // whose keys are not needed any more
		if err := e.link.Send(asked[i].slot, kindAnnounce, asked[i].answer(0, 0)); err != nil {
			return err
		}
	}
	return nil
}

// unused is a notice that lanes have answered, or a new one: each lane has few under way.
func (h *Hub) unused() *notice {
	for _, n := range h.told {
		if n.call.Done() {
			return n
		}
	}
	n := &notice{rows: h.c.NewLentRows(h.work.Spec), index: make([][]int32, len(h.ends))}
	h.told = append(h.told, n)
	return n
}

// telling says whether lanes have not answered.
func (h *Hub) telling() bool {
	for _, n := range h.told {
		if !n.call.Done() {
			return true
		}
	}
	return false
}
