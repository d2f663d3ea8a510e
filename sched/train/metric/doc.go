// Package metric measures predictions: AUC, log loss, accuracy and
// calibration (COPC) of a ctr task, RMSE and MAE of a regression.
//
// It owns the exact AUC over a list in memory, and the Accumulator, which
// counts a stream in bounded memory and merges with others: one per worker,
// then one sum. It must not know models, workers or how counts travel.
//
// The life of one Accumulator: Add takes predictions with their labels,
// MarshalBinary (or JSON) carries it to another process, Merge adds it to
// another, Report turns the counts into figures. All counts are integers, sums
// of floats too (fixed point), so a figure does not depend on how the stream
// was split or in which order the parts were merged: merged equals single, to
// the bit.
package metric
