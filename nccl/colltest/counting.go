package colltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma/mem"
)

// Counting makes calls whose results are known until one fails, gives the error, and closes
// the group: for tests of what comes between two calls.
func Counting(g coll.Group, calls int, within time.Duration) error {
	const n = 64 << 10
	a, err := mem.New(mem.Config{Size: 2 * n, Node: -1, Purpose: "test", Share: true})
	if err != nil {
		return err
	}
	m, err := g.Register(a, "test")
	if err != nil {
		return errors.Join(err, a.Close())
	}
	send, recv := a.Bytes()[:n], a.Bytes()[n:]
	for k := 0; k < calls && err == nil; k++ {
		for at := 0; at < n; at += 4 {
			binary.LittleEndian.PutUint32(send[at:], uint32(k*1000+at))
		}
		if err = g.Do(coll.Call{Kind: coll.AllReduce, Type: coll.U32, Send: send, Recv: recv, Within: within}); err != nil {
			break
		}
		for at := 0; at < n && err == nil; at += 4 {
			if got, want := binary.LittleEndian.Uint32(recv[at:]), uint32(g.Size()*(k*1000+at)); got != want {
				err = fmt.Errorf("call %d: element %d is %d, want %d", k, at/4, got, want)
			}
		}
	}
	// What others may still write into goes when the group has.
	return errors.Join(err, g.Close(), m.Close(), a.Close())
}
