// Package limits refuses settings of a run that are too small or too large.
//
// It owns the sentence that says so. It must not know what is measured, nor flags.
//
// The life of one check: a suite lists its whole numbers with their limits, and gets the
// first that is beyond them as an error.
package limits
