package tiers

// queueRows is how many rows a block of a rowQueue has.
const queueRows = 256

// rowQueue holds rows until Next gives them, in blocks: nothing is copied when it
// grows, and what has been given is free for what comes.
type rowQueue struct {
	blocks []*rowBlock // the first one is being emptied, the last one filled
	spare  *rowBlock
	head   int // of blocks[0], given
	n      int
}

type rowBlock struct {
	keys []uint64
	rows []float32
}

func (q *rowQueue) len() int { return q.n }

func (q *rowQueue) push(key uint64, row []float32) {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last].keys) == queueRows {
		b := q.spare
		if q.spare = nil; b == nil {
			b = &rowBlock{make([]uint64, 0, queueRows), make([]float32, 0, queueRows*len(row))}
		}
		q.blocks = append(q.blocks, b)
		last++
	}
	b := q.blocks[last]
	b.keys, b.rows = append(b.keys, key), append(b.rows, row...)
	q.n++
}

// pop takes the oldest row, whose memory is good until the next push. There is one.
func (q *rowQueue) pop() (key uint64, row []float32) {
	b := q.blocks[0]
	stride := len(b.rows) / len(b.keys)
	key, row = b.keys[q.head], b.rows[q.head*stride:(q.head+1)*stride]
	q.n--
	if q.head++; q.head == len(b.keys) {
		q.blocks[0] = nil
		q.blocks, q.head = q.blocks[1:], 0
		b.keys, b.rows = b.keys[:0], b.rows[:0]
		q.spare = b
	}
	return key, row
}

func (q *rowQueue) bytes(stride int) int64 {
	n := len(q.blocks)
	if q.spare != nil {
		n++
	}
	return int64(n) * queueRows * int64(8+4*stride)
}
