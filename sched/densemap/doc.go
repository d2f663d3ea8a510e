// Package densemap cuts a model's dense parameters into blocks.
//
// All dense tensors of a model lie behind one another in one vector. The
// vector is cut, at fixed places that depend on nothing but the layout, into
// blocks of at most BlockFloats elements that each follow one update rule;
// placement then deals the blocks to lanes. Because every rule is elementwise
// the cut changes no value, and because the cut is fixed a block's digest is
// the same wherever the block lives.
//
// It must not know tensors' meaning, networks or tables. It is pure.
package densemap
