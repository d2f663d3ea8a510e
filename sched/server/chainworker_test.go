package server

import (
	"errors"
	"slices"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// chainWorker is a worker that has one request at a time under way at each group.
type chainWorker struct {
	w       *chainWorld
	number  int
	client  uint64
	host    *dial.Host
	raws    []*raw
	seq     []uint64
	version uint64 // that the last pull was answered with
	known   []bool // seq
	// unanswered are pushes to servers without replicas.
	unanswered []int
}

func (w *chainWorld) worker(number int, client uint64) *chainWorker {
	h, err := dial.New(dial.Config{Transport: w.cfg.transport, Token: w.token, Listen: "127.0.0.1:0"})
	must(w.t, err)
	k := &chainWorker{w: w, number: number, client: client, host: h, raws: make([]*raw, w.cfg.groups), seq: make([]uint64, w.cfg.groups), known: make([]bool, w.cfg.groups), unanswered: make([]int, w.cfg.groups)}
	w.t.Cleanup(func() {
		for _, r := range k.raws {
			if r != nil {
				r.close()
			}
		}
		h.Close()
	})
	return k
}

// patience is for what must come about, on a slow machine.
const patience = 2 * time.Minute

var errGone = errors.New("the connection has ended")

// at gives the connection to a group's head.
func (k *chainWorker) at(group int) (*raw, error) {
	if k.raws[group] != nil {
		return k.raws[group], nil
	}
	addr, epoch := k.w.head(group)
	r, err := knockAt(k.w.t, k.host, addr, psmsg.Hello{Worker: k.number, Client: k.client, Chained: !k.w.cfg.plain, Group: group, Epoch: epoch}.Says())
	if err != nil {
		return nil, err
	}
	var rep psmsg.OpenReply
	if err := r.call(psmsg.MethodOpen, psmsg.OpenRequest{Replies: r.replies()}, &rep); err != nil {
		r.close()
		return nil, err
	}
	r.landing, r.why = rep.Landing[0], k.w.describe
	if !k.known[group] {
		k.known[group], k.seq[group] = true, rep.Standing[0].Last
	}
	k.raws[group] = r
	return r, nil
}

func (k *chainWorker) lose(group int) {
	if r := k.raws[group]; r != nil {
		r.close()
		k.raws[group] = nil
	}
}

// ask sends a request until it is answered.
func (k *chainWorker) ask(group int, request func(r *raw) psmsg.Request) (rep psmsg.Reply, from *raw) {
	k.w.t.Helper()
	for end := time.Now().Add(patience); ; {
		r, err := k.at(group)
		if err == nil {
			r.send(request(r))
			var ok bool
			if rep, ok = r.wait(patience); ok {
				return rep, r
			}
			err = errGone
			k.lose(group)
		}
		if time.Now().After(end) {
			k.w.t.Fatalf("worker %d, group %d: no answer: %v\n%s", k.number, group, err, k.w.describe())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// push sends integers for keys, and with them a dense gradient's or the step's end.
func (k *chainWorker) push(group int, clock uint64, keys []uint64, value float32, tick bool) psmsg.Code {
	k.w.t.Helper()
	return k.send(group, tick, func(r *raw, slot uint32, seq uint64) psmsg.Request {
		req := r.push(slot, seq, clock, len(keys))
		req.Keys, req.Values = r.putRows(int(slot), keys, value, k.w.cfg.tables[0].PushFloats())
		return req
	})
}

// pushDense sends one value for all dense elements, as the worker's own part.
func (k *chainWorker) pushDense(group int, clock uint64, value float32, tick bool) psmsg.Code {
	k.w.t.Helper()
	return k.send(group, tick, func(r *raw, slot uint32, seq uint64) psmsg.Request {
		_, values := r.put(int(slot), make([]uint64, (k.w.cfg.dense+testDim-1)/testDim), value)
		return psmsg.Request{Kind: psmsg.KindPushDense, Slot: slot, Seq: seq, Clock: clock, Table: uint32(k.number) + 1, Rows: 1, Values: values.Slice(0, uint64(k.w.cfg.dense)*4)}
	})
}

// send sends a push and waits for its answer: of a server without replicas later, when
// the next step begins, because it answers when the step is whole.
func (k *chainWorker) send(group int, tick bool, f func(r *raw, slot uint32, seq uint64) psmsg.Request) psmsg.Code {
	k.w.t.Helper()
	seq := uint64(0)
	request := func(r *raw) psmsg.Request {
		if seq == 0 {
			seq = k.seq[group] + 1
		}
		slot := uint32(0)
		if k.w.cfg.plain {
			slot = uint32(k.unanswered[group])
		}
		req := f(r, slot, seq)
		req.Flags &= psmsg.FlagTicket
		if tick {
			req.Flags |= psmsg.FlagTick
		}
		return req
	}
	var code psmsg.Code
	if k.w.cfg.plain {
		r, err := k.at(group)
		must(k.w.t, err)
		r.send(request(r))
		k.unanswered[group]++
	} else {
		rep, _ := k.ask(group, request)
		code = rep.Code
	}
	k.seq[group] = seq
	return code
}

// collect waits for what is not answered.
func (k *chainWorker) collect(group int) {
	for ; k.unanswered[group] > 0; k.unanswered[group]-- {
		if rep, ok := k.raws[group].wait(patience); !ok || rep.Code != psmsg.CodeOK {
			k.w.t.Errorf("answered %v, %v", rep.Code, ok)
		}
	}
}

// pull reads rows; anyTime does not wait for clocks.
func (k *chainWorker) pull(group int, clock uint64, keys []uint64, anyTime bool) []float32 {
	k.w.t.Helper()
	rep, r := k.ask(group, func(r *raw) psmsg.Request {
		req := r.pull(0, clock, len(keys))
		req.Keys, req.Values = r.put(0, keys, 0)
		if anyTime {
			req.Flags |= psmsg.FlagNoClock
		}
		return req
	})
	if rep.Code != psmsg.CodeOK {
		k.w.t.Errorf("a pull was answered %v", rep.Code)
	}
	k.version = rep.Version
	return slices.Clone(r.values(len(keys)))
}

// put fills a slot's part of the worker's memory: keys, and a value for each element.
func (w *raw) put(slot int, keys []uint64, value float32) (k, v rdma.RemoteRange) {
	return w.putRows(slot, keys, value, testDim)
}

func (w *raw) putRows(slot int, keys []uint64, value float32, width int) (k, v rdma.RemoteRange) {
	b, atKeys, atValues := w.arena.Bytes(), rawKeys+slot<<12, rawValues+slot<<14
	copy(mem.Uint64s(b[atKeys:atKeys+len(keys)*8]), keys)
	for i, values := 0, mem.Float32s(b[atValues:atValues+len(keys)*width*4]); i < len(values); i++ {
		values[i] = value
	}
	return w.at(atKeys, len(keys)*8), w.at(atValues, len(keys)*width*4)
}
