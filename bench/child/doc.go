// Package child runs the other process of a benchmark: the same program again,
// which speaks JSON over its standard input and output.
//
// It owns the process and the two pipes. It must not know what is said.
//
// The life of one child: Start starts it; both sides Tell and Hear in turns;
// Close ends its standard input, waits a moment for it to end by itself, and
// kills it then. It is killed, too, when Start's context ends or the process
// that started it dies.
package child
