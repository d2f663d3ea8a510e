package allreduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"

	"psrt/bench/child"
	"psrt/nccl/coll"
	"psrt/nccl/gpu"
	"psrt/nccl/ring"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// patience bounds the meeting of the ranks and one call.
const patience = 2 * time.Minute

const loopback = "127.0.0.1:0"

// rank is a child's state.
type rank struct {
	set   setUp
	group *ring.Group
	plain net.Listener
	adds  coll.Group // group, or NCCL over it
	card  []string   // what NCCL works with
	limit limit
	send  []float32
	recv  []float32
}

// Serve is a child's body: it takes turns until in ends.
func Serve(in io.Reader, out io.Writer) (err error) {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	r := &rank{}
	if err := from.Decode(&r.set); err != nil {
		return fmt.Errorf("no set-up on standard input: %w", err)
	}
	h, err := dial.New(dial.Config{Transport: r.set.Transport, Token: r.set.Token})
	if err != nil {
		return err
	}
	defer h.Close()
	m, err := ring.Listen(h, loopback, "psbench", r.set.Options)
	if err != nil {
		return err
	}
	defer m.Close()
	if r.plain, err = net.Listen("tcp", loopback); err != nil {
		return err
	}
	defer r.plain.Close()
	if err := to.Encode(here{Member: m.Addr(), Plain: r.plain.Addr().String()}); err != nil {
		return err
	}
	var all everyone
	if err := from.Decode(&all); err != nil {
		return err
	}
	end, err := r.join(m, &all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := to.Encode(outcome{Transports: append(r.group.Transports(), r.card...)}); err != nil {
		return err
	}
	for {
		var t turn
		if from.Decode(&t) != nil {
			return nil // the parent's end is the end
		}
		o, err := r.play(&t)
		if err != nil {
			o.Err = err.Error()
		}
		if err := to.Encode(o); err != nil {
			return err
		}
	}
}

// join makes the group, the limit's connections and the vectors.
func (r *rank) join(m *ring.Member, all *everyone) (end func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.group, err = m.Join(ctx, ring.Place{Rank: r.set.Rank, Size: r.set.Size, Epoch: 1},
		func(_ context.Context, rank int) (string, error) { return all.Members[rank], nil })
	if err != nil {
		return nil, err
	}
	r.adds = r.group
	if r.set.NCCL {
		g, err := gpu.Join(ctx, r.group, gpu.Options{Timeout: patience, Machine: "this", AnyOrder: true})
		if err != nil {
			return nil, errors.Join(err, r.group.Close())
		}
		r.adds, r.card = g, []string{fmt.Sprintf("its sums by NCCL %s on %s", g.Info().Version, g.Info().Card)}
	}
	leave := func() (err error) { // what adds, before what it is over
		if r.adds != coll.Group(r.group) {
			err = r.adds.Close()
		}
		return errors.Join(err, r.group.Close())
	}
	half := (r.set.Most + 4095) &^ 4095
	a, err := mem.New(mem.Config{Size: 2 * half, Node: -1, Purpose: "psbench vectors", Share: true, Prefault: true})
	if err != nil {
		return nil, errors.Join(err, leave())
	}
	end = func() error { return errors.Join(leave(), r.limit.close(), a.Close()) }
	memory, err := r.adds.Register(a, "psbench vectors")
	if err != nil {
		return nil, errors.Join(err, end())
	}
	end = func() error { return errors.Join(leave(), r.limit.close(), coll.GiveBack(memory, a)) }
	r.send, r.recv = mem.Float32s(a.Bytes()[:r.set.Most]), mem.Float32s(a.Bytes()[half:half+r.set.Most])
	if r.set.Transport == "tcp" {
		err = r.limit.open(r.plain, all.Plains[(r.set.Rank+1)%r.set.Size])
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// play takes one turn.
func (r *rank) play(t *turn) (o outcome, err error) {
	n := t.Bytes / 4
	send, recv := mem.Bytes(r.send[:n]), mem.Bytes(r.recv[:n])
	fill(r.send[:n], r.set.Rank, t.Seed)
	clear(r.recv[:n])
	one := func() error {
		return r.adds.Do(coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: send, Recv: recv, Within: patience})
	}
	if t.Limit {
		one = func() error { return r.limit.play(r, send, recv) }
	}
	if err := r.group.Do(coll.Call{Kind: coll.Barrier, Within: patience}); err != nil {
		return o, err
	}
	before, err := child.OwnCPUSeconds()
	if err != nil {
		return o, err
	}
	warm := warmUp(t.Iterations)
	for i := range warm + t.Iterations {
		start := time.Now()
		if err := one(); err != nil {
			return o, err
		}
		if i >= warm {
			o.Micros = append(o.Micros, float64(time.Since(start).Nanoseconds())/1e3)
		}
	}
	after, err := child.OwnCPUSeconds()
	if err != nil {
		return o, err
	}
	o.CPU = after - before
	if t.Limit {
		return o, nil
	}
	o.Checksum = crc32.ChecksumIEEE(recv)
	return o, check(r.recv[:n], r.set.Size, t.Seed)
}
