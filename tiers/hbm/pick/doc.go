// Package pick chooses the devices of a server's rows by their names: GPUs, accelerators of
// somebody's, the twin in the host's memory, or several as one.
//
// It owns what may be named, and what is said where some of it is not there. It must not know
// tables, servers, or which command asks.
//
// The life of one choice: Validate refuses what no server has, before anything is begun. Open
// takes each device that is named; one that is not there is said, and done without. What it
// gives is one hbm.Device, of several their hbm.Cards, with lanes dealt by speed where they are
// unlike, and what gives the claims on cards back.
package pick
