// Package fserr says what to do about an error of the file system.
//
// It owns the remedies for what a full, read-only, missing or foreign directory
// answers. It must not know what is written there, nor look at the disk itself.
//
// An error's life: a call of package os fails in ckpt or export; Explain takes the
// path out of it, which the caller names anyway, and adds the remedy; the cause
// stays behind errors.Is.
package fserr
