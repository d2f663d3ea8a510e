package dataset

// Batch is a run of examples as compressed sparse rows: example i owns
// occurrences Offsets[i] to Offsets[i+1] of Keys, Fields and Values.
type Batch struct {
	Labels  []float32
	Offsets []int32 // len(Labels)+1 entries, the first 0
	Keys    []uint64
	Fields  []uint16
	Values  []float32
}

// Len is the number of examples.
func (b *Batch) Len() int { return len(b.Labels) }

// Reset empties the batch and keeps its memory for the next one.
func (b *Batch) Reset() {
	b.Labels = b.Labels[:0]
	b.Offsets = append(b.Offsets[:0], 0)
	b.Keys = b.Keys[:0]
	b.Fields = b.Fields[:0]
	b.Values = b.Values[:0]
}
