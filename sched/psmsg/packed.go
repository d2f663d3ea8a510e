package psmsg

// PackedSince is the first version with FlagPacked. What a worker has packed goes down a
// group's chain as it is, so all members must speak it: a job is begun with --compress
// by releases that do.
const PackedSince = 6

// TimesSince is the first version whose payloads may say of how many steps a row's gradient
// is the sum.
const TimesSince = 7
