// Package doctor says what a machine offers to psrt and what would make it
// faster: one finding each, with its figure and the command that mends it.
//
// It owns which facts are looked at and what they mean. It must not know how a
// finding is shown. Everything but what only a try can tell (rdma/feature) is read
// from files below a root, so that a tree of files is a machine.
package doctor
