// Package psmsg is the vocabulary between a client and a server lane: a fixed
// request header, a fixed reply header, and the JSON bodies of the control
// connection.
//
// It owns the byte layouts, their version and the checks on every field that
// comes from outside. It must not know who sends, what a table does with a
// request, or how bytes travel.
//
// The life of a pull: the client fills a Request naming the rows' keys and the
// range of its own registered memory where the values shall land, and writes
// it with immediate into one slot of the lane's landing ring; small payloads
// (keys, gradients) ride behind the header in the same write, larger ones stay
// in the client's memory and the lane fetches them from the range that the
// header names. The lane puts the values where they are wanted and ends by
// writing a Reply with immediate into the reply slot of the same number. The
// reply frees the slot.
package psmsg
