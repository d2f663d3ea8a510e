package belady

import "container/list"

// Result counts one policy over one trace.
type Result struct {
	Uses  int // keys looked up
	Made  int // of them for the first time
	Reads int // rows that were there and not in memory
}

// Room is a cache that stays as large as it is: for Simulate.
func Room(t Trace, rows int) []int {
	room := make([]int, len(t))
	for i := range room {
		room[i] = rows
	}
	return room
}

// Simulate counts the reads of a cache of room[b] rows in batch b, which must be at
// least as many as the batch has, from batch from on. Rows of the batch under way
// do not leave.
// Policies: "belady" knows the batch under way and window more, and lets the
// row go whose next use is furthest, those without one first, longest ago
// first; "lru"; "s3fifo".
func Simulate(t Trace, policy string, room []int, window, from int) Result {
	var res Result
	c := newCache(policy, t, window)
	known := map[uint64]bool{}
	for b, keys := range t {
		now := map[uint64]bool{}
		for _, key := range keys {
			now[key] = true
		}
		c.begin(b)
		mayGo := func(key uint64) bool { return !now[key] }
		for c.len() > room[b] { // it has become smaller
			c.evict(mayGo)
		}
		for _, key := range keys { // what is there is seen first: it is in use
			if c.has(key) {
				c.hit(key)
			}
		}
		if b == from {
			res = Result{}
		}
		for _, key := range keys {
			res.Uses++
			if c.has(key) {
				continue
			}
			if !known[key] {
				known[key] = true
				res.Made++
			} else {
				res.Reads++
			}
			if c.len() >= room[b] {
				c.evict(mayGo)
			}
			c.insert(key)
		}
	}
	return res
}

type cache interface {
	begin(batch int)
	has(key uint64) bool
	hit(key uint64)
	insert(key uint64)
	evict(may func(key uint64) bool)
	len() int
}

func newCache(policy string, t Trace, window int) cache {
	switch policy {
	case "lru":
		return &lru{at: map[uint64]*list.Element{}, order: list.New()}
	case "s3fifo":
		return &s3{in: map[uint64]*entry{}, small: list.New(), main: list.New(), ghost: list.New(), gone: map[uint64]*list.Element{}}
	}
	b := &belady{window: window, lru: lru{at: map[uint64]*list.Element{}, order: list.New()}, uses: map[uint64][]int{}}
	for n, keys := range t {
		for _, key := range keys {
			b.uses[key] = append(b.uses[key], n)
		}
	}
	return b
}

type lru struct {
	at    map[uint64]*list.Element
	order *list.List // the longest ago in front
}

func (c *lru) begin(int)           {}
func (c *lru) has(key uint64) bool { return c.at[key] != nil }
func (c *lru) hit(key uint64)      { c.order.MoveToBack(c.at[key]) }
func (c *lru) insert(key uint64)   { c.at[key] = c.order.PushBack(key) }
func (c *lru) len() int            { return c.order.Len() }
func (c *lru) evict(may func(key uint64) bool) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		if key := e.Value.(uint64); may(key) {
			c.drop(key)
			return
		}
	}
}

func (c *lru) drop(key uint64) {
	c.order.Remove(c.at[key])
	delete(c.at, key)
}

// belady is an LRU that knows the future within the window.
type belady struct {
	lru
	window, now int
	uses        map[uint64][]int
	// byNext are the keys as they are at the begin of a batch, by the number of batches
	// to their next use behind it, 0 if none is known; those of one number in the order
	// of lookups. Rows that are looked up in the batch do not leave during it.
	byNext [][]uint64
}

func (c *belady) begin(batch int) {
	c.now = batch
	c.byNext = make([][]uint64, c.window+1)
	for e := c.order.Front(); e != nil; e = e.Next() {
		key := e.Value.(uint64)
		n := c.next(key)
		c.byNext[n] = append(c.byNext[n], key)
	}
}

// next is how far the key's next use after the batch under way is, 0 if none is
// known.
func (c *belady) next(key uint64) int {
	uses := c.uses[key]
	for len(uses) > 0 && uses[0] <= c.now {
		uses = uses[1:]
	}
	c.uses[key] = uses
	if len(uses) == 0 || uses[0] > c.now+c.window {
		return 0
	}
	return uses[0] - c.now
}

func (c *belady) evict(may func(key uint64) bool) {
	for n := range c.byNext { // 0, then the furthest
		list := &c.byNext[(len(c.byNext)-n)%len(c.byNext)]
		for len(*list) > 0 {
			key := (*list)[0]
			*list = (*list)[1:]
			if may(key) {
				c.drop(key)
				return
			}
		}
	}
}

// s3 is S3-FIFO by its paper.
type s3 struct {
	in                 map[uint64]*entry
	small, main, ghost *list.List
	gone               map[uint64]*list.Element
}

type entry struct {
	key   uint64
	count int
}

func (c *s3) begin(int)           {}
func (c *s3) has(key uint64) bool { return c.in[key] != nil }
func (c *s3) hit(key uint64)      { c.in[key].count = min(3, c.in[key].count+1) }
func (c *s3) len() int            { return c.small.Len() + c.main.Len() }
func (c *s3) insert(key uint64) {
	e := &entry{key: key}
	c.in[key] = e
	if g := c.gone[key]; g != nil {
		c.ghost.Remove(g)
		delete(c.gone, key)
		c.main.PushBack(e)
		return
	}
	c.small.PushBack(e)
}

func (c *s3) evict(may func(key uint64) bool) {
	for {
		if c.small.Len()*10 >= c.len() || c.main.Len() == 0 {
			e := c.small.Remove(c.small.Front()).(*entry)
			if e.count > 1 || !may(e.key) {
				e.count = 0
				c.main.PushBack(e)
				continue
			}
			delete(c.in, e.key)
			c.gone[e.key] = c.ghost.PushBack(e.key)
			if c.ghost.Len() > c.len()+1 {
				delete(c.gone, c.ghost.Remove(c.ghost.Front()).(uint64))
			}
			return
		}
		e := c.main.Remove(c.main.Front()).(*entry)
		if e.count > 0 || !may(e.key) {
			e.count = max(0, e.count-1)
			c.main.PushBack(e)
			continue
		}
		delete(c.in, e.key)
		return
	}
}
