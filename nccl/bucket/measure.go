package bucket

import (
	"encoding/binary"
	"math"
	"time"

	"psrt/nccl/coll"
)

// rounds is how often each length is tried; the quickest counts.
const rounds = 3

// Room is how many bytes Measure and Agree need at least.
const Room = 8 * line

// Measure tries the Sizes of a vector of so many bytes, at all ranks at once. scratch is
// registered with g, has as many bytes or MostBytes, Room at least, and is worthless
// afterwards. work is what the caller does with what was added, as far as it has come; it
// may be nil. now is a clock.
func Measure(g coll.Group, scratch []byte, bytes int, work func(end int), now func() time.Time) ([]Tried, error) {
	var all []Tried
	vector := scratch[:min(bytes, MostBytes)]
	for _, size := range Sizes(bytes) {
		t := Tried{Bytes: size}
		for i := range rounds {
			clear(vector) // zeros stay zeros
			if err := g.Do(coll.Call{Kind: coll.Barrier}); err != nil {
				return nil, err
			}
			began := now()
			if err := Reduce(g, coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: vector, Recv: vector}, size, work); err != nil {
				return nil, err
			}
			if took := now().Sub(began).Seconds(); i == 0 || took < t.Seconds {
				t.Seconds = took
			}
		}
		all = append(all, t)
	}
	b := scratch[:8*len(all)]
	for i, t := range all {
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(t.Seconds))
	}
	if err := g.Do(coll.Call{Kind: coll.AllReduce, Type: coll.F64, Op: coll.Max, Send: b, Recv: b}); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Seconds = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return all, nil
}

// Agree is the greatest of what the ranks say: a choice that some of them know, the others
// saying 0.
func Agree(g coll.Group, scratch []byte, mine uint64) (uint64, error) {
	b := scratch[:8]
	binary.LittleEndian.PutUint64(b, mine)
	err := g.Do(coll.Call{Kind: coll.AllReduce, Type: coll.U64, Op: coll.Max, Send: b, Recv: b})
	return binary.LittleEndian.Uint64(b), err
}
