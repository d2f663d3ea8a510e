// Package tiers is a table over several kinds of memory: rows in memory, and
// all others on disks.
//
// It owns what is where and why: the bound of the memory, pins, reading ahead,
// and which row leaves. It must not know who asks, the network, or how a log
// lies on a disk (package ssd) or a row is updated (package accessor).
package tiers
