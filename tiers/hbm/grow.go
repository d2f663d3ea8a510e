package hbm

import (
	"errors"
	"slices"
)

// grow has a stand-in, which is as large as the work was when the device failed, take in a lookup of
// n rows beside what is pinned and promised, as far as the device had room for it: never more of the
// host's memory than was the device's. It does nothing to a device.
//
// Preconditions: no call has rows in the buffers. A stand-in has done all it was told, so none is on
// its way.
func (c *Cache) grow(n int) error {
	old, ok := c.dev.(*standIn)
	want := min(len(c.keys), max(2*n, c.size()-c.room()+n)) // another of that size beside it, as a batch has
	if !ok || n > len(c.keys) || want <= len(c.play) {
		return nil
	}
	c.callOff()
	play := slices.Clone(c.play)
	for s := 0; len(play) < want; s++ {
		if old.place[s] == noRow {
			play = append(play, uint32(s))
		}
	}
	twin, buf, err := c.newTwin(play)
	if err != nil {
		return err
	}
	most := len(buf[0].rows) / c.acc.RowFloats()
	for some := range slices.Chunk(c.play, most) {
		words := buf[0].rows[:len(some)*c.acc.RowFloats()]
		old.CopyOut(some, words)
		twin.CopyIn(some, words)
	}
	c.free = append(c.free, play[len(c.play):]...)
	c.stats.times.add(old.Times())
	c.dev, c.buf, c.play = twin, buf, play
	_ = old.Close() // memory of the host that nobody uses any more
	return nil
}

// newTwin makes a stand-in of the slots in play, and buffers for it.
func (c *Cache) newTwin(play []uint32) (twin *standIn, buf [buffers]buffer, err error) {
	if twin, err = newStandIn(c.acc, c.cfg.Node, len(c.keys), play, c.index.Find); err != nil {
		return nil, buf, err
	}
	for i := range buf {
		if buf[i].rows, err = twin.Buffer(len(c.buf[i].rows)); err != nil {
			return nil, buf, errors.Join(err, twin.Close())
		}
	}
	return twin, buf, nil
}
