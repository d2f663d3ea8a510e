// Package outdir is a directory of files that is replaced as a whole: what an
// export writes, and others read while the next one is being written.
//
// It owns the manifest with sizes and SHA-256 of the files, and the promise that
// the directory holds either the old files or the new ones, all of them, after
// any crash. It must not know what is in the files: the manifest has a kind, a
// version, and contents that are the caller's.
//
//	DIR/EXPORT.json            names the other files
//	DIR/...                    the files
//	.NAME.export-XXXXXXXX/     beside DIR: one being written, or what a crash left
//
// # The life of an export
//
// Begin removes what crashed exports of the same DIR left and makes a directory
// beside DIR, locked for as long as its process lives. Create writes files into
// it and hashes them on the way. Commit writes the manifest, syncs files and
// directory, and lets the two directories change names in one step of the file
// system (renameat2 with RENAME_EXCHANGE), so that DIR is there at every moment;
// then it removes the old one. Readers that have the old files open or mapped
// keep them.
//
// # Faults survived
//
// Each is a test: kill -9 between any two operations; any operation that fails
// (no space, an I/O error, a read-only file system); two exports of one DIR at
// the same time (the last wins, both whole); a flipped bit (Verify names the
// file); a DIR with something of the user's in it (refused, not replaced).
package outdir
