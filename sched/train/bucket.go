package train

import (
	"errors"
	"time"

	"psrt/nccl/bucket"
	"psrt/tiers/dense"
)

// unknownBucket is where the workers have not agreed yet.
const unknownBucket = -1

// cut has all workers of a group add the vector in the same buckets: those that some of
// them know, those that the job names, or those that are quickest here. No step is under
// way at a worker that knows none.
func (c *collective) cut() (err error) {
	bytes := 4 * c.mixed.longest(c.floats())
	if c.w.job.Workers == 1 || bytes == 0 || c.cards != nil && c.cards.group != nil { // NCCL cuts by itself
		return nil
	}
	told := c.w.job.DenseBucket
	if told == nil && len(bucket.Sizes(bytes)) == 1 {
		return nil
	}
	arena, m, err := c.memory(c.group, max(bucket.Room, min(bytes, bucket.MostBytes)), "collective's measurements")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.forget(arena, m)) }()
	known, err := bucket.Agree(c.group, arena.Bytes(), uint64(c.bucket+1))
	if err != nil {
		return err
	}
	var tried []bucket.Tried
	size := int(known) - 1
	switch {
	case known > 0:
		tried = c.tried
	case told != nil:
		size = *told
	default:
		if tried, err = c.tryBuckets(arena.Bytes(), bytes); err != nil {
			return err
		}
		size = bucket.Choose(bytes, tried)
	}
	c.mu.Lock()
	c.bucket, c.tried = size, tried
	c.mu.Unlock()
	return nil
}

// tryBuckets measures, with a vector of its own to apply to where sums are applied while
// others are added.
func (c *collective) tryBuckets(scratch []byte, bytes int) (tried []bucket.Tried, err error) {
	if c.survives {
		return bucket.Measure(c.group, scratch, bytes, nil, time.Now)
	}
	n := 0
	for most := min(bytes, bucket.MostBytes) / 4; n < len(c.blocks) && c.blocks[n].Offset+c.blocks[n].Len <= most; n++ {
	}
	var v *dense.Vector
	if n > 0 {
		if v, err = c.newVector(c.blocks[:n]); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, v.Close()) }()
	}
	zeros := make([]float32, bytes/4)
	applied := 0
	return bucket.Measure(c.group, scratch, bytes, func(end int) {
		for ; applied < n && c.blocks[applied].Offset+c.blocks[applied].Len <= end/4; applied++ {
			v.Apply(applied, zeros[:c.blocks[applied].Len])
		}
		if applied == n {
			applied = 0
		}
	}, time.Now)
}

// bucketBytes is how the vector is cut, 0: not at all.
func (c *collective) bucketBytes() int {
	if c.cards != nil && c.cards.group != nil {
		return 0
	}
	return max(c.bucket, 0)
}
