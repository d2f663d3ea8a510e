// Package gen writes synthetic click data with a planted model, so that anyone
// can train on data of a known answer and of the shape that parameter servers
// meet: few ids that everybody looks up, and a long tail seen once.
//
// It owns the sampling, the planted model and the files. It must not know the
// trainer.
//
// The life of a row: its number and the seed name a counter-based stream of
// random numbers, so any goroutine can make any row, and the second pass can
// make a row again instead of storing it. For every field a code is drawn from
// a power law (code 0 is "missing"); the planted model turns the codes into a
// probability, and the last random number into the label. Chunks of rows are
// made in parallel, and written and counted in order by one goroutine.
//
// The planted model is bias + sum of w[code] + sum over pairs of <v[code],
// v[code']>: a factorization machine of rank 1 over a few fields. Effects shrink
// with the rarity of the code, so most of the signal sits in ids that repeat.
// Scale and bias are set on a pilot sample: the AUC comes out near .8 for any
// size and shape, with about a tenth of its variance in pairs, which factorization
// machines can learn and linear models cannot.
//
// Numbers are integers in fixed point, or floating-point products rounded one
// by one: files are the same on every machine, whether or not its compiler
// fuses multiplication and addition.
package gen
