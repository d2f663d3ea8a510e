// Package verbs calls libibverbs, which it loads when it is first needed: one
// binary serves hosts with and without the library.
//
// It owns the symbol table, the order in which verbs objects are made and
// destroyed, and the translation of batches: one cgo call posts a list of
// requests with one doorbell, one polls many completions into flat structs.
// It must not know connections, credits, regions by name or who calls.
//
// The life of one request: the caller fills Send records, whose addresses lie
// in memory it registered (or, inline, offsets in a byte slice that goes along
// with the call); PostSend links them into one list and rings once; Poll later
// returns the record's ID with the outcome. Nothing here keeps a Go pointer.
//
// Two points tell tools of each batch, polled or posted (usdt_points.h); where
// nobody looks they cost a load and a branch.
//
// Built without cgo every entry returns ErrUnavailable. Objects are not safe
// against use after Close: the caller orders that.
package verbs
