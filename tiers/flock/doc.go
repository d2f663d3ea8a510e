// Package flock takes locks on files, which end with the file's Close or with the
// process, however that ends.
//
// It owns the wait for a holder that is just going: one that was killed has its locks
// until the kernel is done with it, and a child has its parent's from the fork to the
// exec. It must not know what is locked.
//
// The life of a lock: an open file, Take, Close.
package flock
