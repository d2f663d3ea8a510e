// Package reference is the second opinion on training: all five models and
// all optimizers in float64, one process, plain loops written from the
// formulas, no kernels and no thought of speed. Tests compare sched/train/model
// and whole distributed runs with it.
//
// It owns Net (one leaf's loss, predictions and gradients) and Trainer (whole
// epochs over examples in memory). It takes from sched/train/model only what a
// model is, Spec and the names and shapes of DenseLayout, and none of its
// arithmetic. Production code must not import it.
//
// The life of one comparison: ParseLibFFM reads the same file, NewTrainer gets
// the same starting values (dense floats and a function that gives birth to
// rows), Epoch walks the same global batches cut into the same leaves (batch
// norm and dropout depend on the cut), and the weights are compared within the
// tolerance of float32.
package reference
