// Package files is where a model's history lies: a directory, or anything that
// can do the same few things.
//
// It owns the interface FS, its local implementation Dir, and the order of
// system calls that makes a file durable. It must not know what is in a file.
// Package s3, beside it, is the implementation over an object store.
//
// Names are relative, with at most one slash: files of the root and files of
// directories below it. An FS needs no rename: what must appear whole and at
// once is small and goes through Put; large files are written under names that
// nobody looks for yet.
//
// The life of a file: Create, Write ..., Close (its bytes are durable), Sync of
// its directory (its name is, too), and Put of whatever names it. A reader
// Lists, Reads what is small, and Opens the rest to read it at any place from
// several goroutines.
//
// One writer at a time holds the Lock; it is the only one that Puts and
// Removes. Others may Create under names that it gave them.
package files
