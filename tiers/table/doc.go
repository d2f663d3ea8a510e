// Package table holds the words that every floor above the storage shares: what
// a sparse table is (Spec), how its rows are born (Init), how they learn
// (Optimizer) and live (Lifecycle), and the Digest by which two models are
// compared.
//
// It owns names, limits and defaults, and the errors a user sees when a
// description makes no sense. It must not know where rows are stored, who asks
// for them, or how a kernel computes.
//
// The life of one description: it is read from YAML or flags, checked by
// Validate, completed by WithDefaults wherever it is used (completing twice
// changes nothing), and handed down to the storage, which derives the row
// layout from it. Rows are float32, little-endian: Dim weights, then the
// optimizer's state, then the words of a lifecycle. That byte string is what a
// Digest hashes, so the layout of a row is a format and does not depend on the
// storage.
package table
