// Package layers measures the dense layers of a model on an accelerator, forward and backward,
// as a dense rank uses it: micro-batches from the host's memory, their gradients back there. Beside
// it one thread of the processor computes the same ones.
//
// It owns the micro-batches and the check that both ways computed the same. It must not know
// flags, or how reports are shown.
//
// The life of the row: the device and the processor take turns (package turns) at the same
// micro-batches with the same parameters. Then all that they gave is compared: bit by bit where
// the device says that it has the processor's bits, else the predictions within what orders of
// sums may differ by.
package layers
