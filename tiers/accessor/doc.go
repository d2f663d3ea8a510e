// Package accessor gives a row its meaning: which floats are weights and which
// are optimizer state, how a new row is born, which kernel rule updates it, and,
// for a table with a lifecycle, when it decays, gets its vector, is saved and
// goes.
//
// It owns the row layout (Dim weights, then the state in the order of
// kernels.Kind), the birth of rows, and what events do to them. It must not know
// where rows are stored, how keys are spread over servers, or what time it is.
//
// A row is born from (seed, table ID, key) and nothing else: element i is a
// function of a 64-bit counter, computed with integers and one exact
// multiplication, so that it is the same on every machine, in any order of
// arrival. There is no libm in it: the normal distribution is a sum of twelve
// uniforms (Irwin-Hall, cut at 6 deviations).
//
// The life of one row: the storage finds that a key is new, gives the accessor
// the memory, Born fills weights and state (and Begin lets a user's rule look at
// the row); from then on Update changes it in place.
//
// With a lifecycle (docs/lifecycle.md) a row is
//
//	embed_w | vector | embed_w's state | the vector's state | 11 words:
//	show, click, delta_score, pending delta_score   float64, two words each, lower half first
//	events taken in, days unseen, slot << 8 | flags  one word each
//
// Words are bits, not numbers, and travel as float32 do: copied, never computed
// with. The vector is drawn at birth and hidden (Gather gives zeros) until the row
// is extended; it depends on the key alone, so nobody can tell.
//
// What happens to all rows at once (a shrink, a day, a save for serving) is an
// Event at the end of a History, and costs nothing. A row's words say how many
// events it has taken in; whoever looks at it (Refresh, Settled, Dead, View) has
// it replay the others, each with the arithmetic of a sweep at its time. So a row
// has the same bits however long nobody looked, in whatever memory it lay; copies
// of it from before and after a replay are equally good; and events write nothing
// to a disk. A row that an event has ended is found dead whenever it is looked at,
// and is born again if its key is pushed to.
//
// Order, for a storage: Admit before a row is made, Born or Check+copy, Refresh at
// the end of every lookup, then Gather and Update on what it left. Events come
// between a batch's Update and the next lookup. Bury before a dead row's memory is
// used again.
package accessor
