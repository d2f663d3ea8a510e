//go:build cgo

package nccl

import (
	"errors"
	"fmt"

	"psrt/csrc/cuda"
)

// oneRank makes each call of a communicator of one rank, whose result is what it gave.
func oneRank(dev *cuda.Device, lib *Library) (err error) {
	const n = 1000
	id, err := lib.UniqueID()
	if err != nil {
		return err
	}
	if _, err := lib.Init(id, 3, 2); err == nil {
		return errors.New("rank 3 of 2 was taken")
	}
	comm, err := lib.Init(id, 0, 1)
	if err != nil {
		return err
	}
	if err := settled(comm); err != nil {
		return err
	}
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	event, err := dev.NewEvent(false)
	if err != nil {
		return err
	}
	host, err := dev.HostAlloc(2 * n)
	if err != nil {
		return err
	}
	from, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	to, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	var known []*Registration // all that a call has, or nothing
	for _, at := range []cuda.Ptr{from, to} {
		reg, err := comm.Register(uint64(at), n)
		if lib.Registers() == (err != nil) || err != nil && !errors.Is(err, ErrNotSupported) {
			return fmt.Errorf("registering: %w", err)
		} else if err == nil {
			known = append(known, reg)
		}
	}
	send, recv, raw := uint64(from), uint64(to), stream.Raw()
	for i, call := range []func() error{
		func() error { return comm.AllReduce(raw, send, recv, n/4, F32, Sum) },
		func() error { return comm.ReduceScatter(raw, send, recv, n/2, F16, Max) },
		func() error { return comm.AllGather(raw, send, recv, n, U8) },
		func() error { return comm.Broadcast(raw, send, n, U8, 0) },
		func() error {
			return comm.Exchange(raw, []Part{{Send: send, Sends: n / 8, Recv: recv, Recvs: n / 8}}, I64)
		},
		func() error { return comm.AllReduces(raw, send, recv, n/4, F32, Sum, 3) },
	} {
		for k := range n {
			host[k], host[n+k] = byte(k%100), 0
		}
		back := to
		if i == 3 {
			back = from
		}
		err := errors.Join(stream.ToDevice(from, host[:n]), stream.Fill(to, 0, n), call(), settled(comm), stream.ToHost(host[n:], back), stream.Record(event), event.Wait())
		if err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if string(host[:n]) != string(host[n:]) {
			return fmt.Errorf("call %d gives something else than it was given", i)
		}
	}
	var failed *Error
	if err := comm.AllReduce(raw, send, recv, 1, 99, Sum); !errors.As(err, &failed) || failed.Result != InvalidArgument || failed.Rank != 0 {
		return fmt.Errorf("a type that is none: %v", err)
	}
	err = nil
	for _, reg := range known {
		err = errors.Join(err, reg.Close())
	}
	return errors.Join(err, comm.Finalize(), settled(comm), comm.Destroy(), dev.Free(from), dev.Free(to), dev.HostFree(host), event.Close(), stream.Close())
}
