// Package span finds the range of memory that a buffer lies in: which region
// lends these bytes?
//
// It owns one immutable, sorted set, which its users swap as a whole by an
// atomic pointer: a lookup takes no lock. It must not know what a range
// belongs to, and never touches the memory itself.
//
// The life of one lookup: a transport's Post takes the current set and asks
// Find for the entry around its buffer's address; registering and closing
// regions replace the set by With and Without meanwhile.
package span
