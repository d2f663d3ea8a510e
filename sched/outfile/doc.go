// Package outfile writes files that have their name when they are whole.
//
// It owns the name until then, NAME.tmp beside it, and what a name may be: a link is
// followed, and what is no plain file (a pipe, /dev/null, /dev/stdout) is written as it
// is, never replaced. It must not know what is written.
//
// The life of one: Create finds out at once whether the name can be written, its owner
// writes, End gives it its name or takes it away.
package outfile
