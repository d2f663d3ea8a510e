// Package seedtest gives tests their seeds: printed, and taken from PSRT_SEED
// when a run is to be repeated. It lies on the lowest floor because tests of
// every floor use it; production code must not.
//
// The life of one seed: a test asks for a source, the seed is logged (go test
// shows it when the test fails), and `PSRT_SEED=… go test -run …` repeats it.
package seedtest
