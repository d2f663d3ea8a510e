// Package layers computes the dense half of a model's leaves on an accelerator: what
// model.Scratch.StepDense does, by the kernels of csrc/ptx.
//
// It owns the device's memory for one model, the staging, the order of kernels, and the
// proof that the device's bits are this machine's. It must not know where leaves come from,
// who adds their gradients up, or what to do when a device fails.
//
// # The life of a leaf
//
//	Values    the dense parameters, through pinned memory, once a version
//	Step      labels, logits and activations into a stage's pinned memory, one copy to the
//	          device; forward, loss, backward, in the order of StepDense; one copy of all
//	          gradients and predictions to the stage; an event behind the last leaf
//	          of the call, which is waited for; out of the stages
//
// All work is given to one stream, so leaves share what lies between layers.
//
// # Bits
//
// Operations and orders are those of csrc/nn. A product is one chain of fused operations an
// element, cut as this machine's BLAS cuts it (blas.Chained). Open computes a whole leaf both
// ways: Exact is that all bits are equal, which is so where BLAS has its kernels for
// AVX-512, of most shapes. Shorter leaves, as an epoch's last ones are, are then tried when the
// first of a length comes, and left to the processor where their bits are not its own. Where
// whole leaves are not exact BLAS has several sums an element, and products differ in their
// last bits; a device that differs by more is refused.
//
// # Faults
//
// A device that failed once fails every call, with the first error; its memory is given back
// as far as it lets itself be. One goroutine uses a Device.
package layers
