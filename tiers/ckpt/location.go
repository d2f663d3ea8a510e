package ckpt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/ckpt/s3"
	"psrt/tiers/localpath"
)

// IsDirectory says whether a location is a directory of this machine's, rather
// than a place in a store.
func IsDirectory(location string) bool { return !s3.Is(location) }

// openFS is the place that a location names: a directory, or
// s3://bucket/prefix (see package s3 for its parameters). Nothing need be there.
func openFS(ctx context.Context, location string) (files.FS, error) {
	if s3.Is(location) {
		return s3.Open(ctx, location)
	}
	if scheme := localpath.Scheme(location); scheme != "" {
		return nil, &PlaceError{fmt.Errorf("ckpt: %s: want a directory or s3://bucket/prefix, not %s:// (a directory of this name is ./%s)", location, scheme, location)}
	}
	return files.NewDir(location), nil
}

// SplitPlace splits PLACE@NUMBER, the name of a generation in commands. number is 0, the newest, where there is no @NUMBER.
func SplitPlace(s string) (location string, number uint64) {
	s = cmp.Or(strings.TrimRight(s, "/"), s)
	if i := strings.LastIndexByte(s, '@'); i > 0 {
		if n, err := strconv.ParseUint(s[i+1:], 10, 64); err == nil && n > 0 {
			return s[:i], n
		}
	}
	return s, 0
}

// PlaceError is a place that cannot hold what it was named for.
type PlaceError struct{ Err error }

func (e *PlaceError) Error() string { return e.Err.Error() }
func (e *PlaceError) Unwrap() error { return e.Err }

// BadInput: the user chose the place.
func (e *PlaceError) BadInput() bool { return true }

// exportName makes a directory an export (package export). Who is given the directory
// of a model reads the export where both lie in it.
const exportName = "EXPORT.json"

// vacant refuses a directory for a model of format 1 in which something lies that would
// be taken for it, or that it would be taken for.
func vacant(dir string) error {
	if err := localpath.Check(dir); err != nil {
		return &PlaceError{fmt.Errorf("ckpt: %w", err)}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it is not there, or making it says why
	}
	for _, e := range entries {
		_, manifest := manifestNumber(e.Name())
		switch {
		case e.Name() == exportName:
			return &PlaceError{fmt.Errorf("ckpt: %s holds an export of psrt export, which psrt eval and predict would read in place of the model; choose another directory for it", dir)}
		case manifest, e.Name() == headName:
			return &PlaceError{fmt.Errorf("ckpt: %s holds the history of a psrt train --checkpoint; choose another directory for a model", dir)}
		}
	}
	return nil
}

// systemNames lists entries that an operating system or file server creates in a directory unasked.
var systemNames = []string{"lost+found", ".DS_Store", ".snapshot"}

// Replaceable refuses a directory for a model unless it is missing, empty, or holds a
// model of ours, which is replaced; what lies beside a model stays. known are names in
// it that its user means to be there.
func Replaceable(dir string, known ...string) error {
	if err := vacant(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &PlaceError{explain("looking at", dir, err)}
	}
	stranger := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == ManifestName && !e.IsDir():
			if _, err := readManifest(context.Background(), files.NewDir(dir), name); err != nil {
				return &PlaceError{fmt.Errorf("%w (or remove %s)", err, filepath.Join(dir, name))}
			}
			return nil
		case name == files.LockName, name == manifestTemp, strings.HasPrefix(name, incomingPrefix), ours(dir, name), slices.Contains(known, name),
			slices.Contains(systemNames, name):
			// Of a model that was never whole, or the user's, or the system's.
		default:
			stranger = name
		}
	}
	if stranger != "" {
		return &PlaceError{fmt.Errorf("ckpt: %s has %s in it and no model of psrt; choose a directory that is new, empty, or holds a model to be replaced", dir, stranger)}
	}
	return nil
}
