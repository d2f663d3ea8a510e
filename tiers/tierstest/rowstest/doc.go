// Package rowstest holds any tiers.Rows to the reference of package tierstest:
// the same table walked at random, with lookups that overlap, rows that are
// held, deletions, sweeps, and cuts under way while everything changes.
//
// It owns the walk and its model of what must be answered. It must not know how
// many tiers there are; nothing but tests imports it.
//
// The life of one run: Run draws operations from a seed (printed; PSRT_SEED
// repeats it). A lookup is compared when it ends, by Start or by Poll. A cut or
// a sweep goes on in small steps between other operations, and its model knows
// which rows it must still give.
package rowstest
