package psmsg

// MethodDenseState gives one dense block with its optimizer's state:
// DenseStateRequest -> DenseStateReply.
const MethodDenseState = "dense-state"

// DenseStateRequest asks for the server's first block from From on.
type DenseStateRequest struct {
	From int `json:"from"`
}

// DenseStateReply is a block; Found is false where there is none.
type DenseStateReply struct {
	Found   bool   `json:"found"`
	Block   int    `json:"block"`
	Version uint64 `json:"version"` // updates that are in it
	Values  []byte `json:"values"`  // float32, little-endian, as State
	State   []byte `json:"state"`
}
