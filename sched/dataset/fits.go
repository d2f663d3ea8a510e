package dataset

// Text of about seven bytes an occurrence becomes fourteen in memory; compressed
// files are about five times as large when read.
const (
	expansion   = 2
	compression = 5
)

// FitsMemory guesses, from the files' sizes, whether all rows of the source
// take less than half of what memory mode may use on this machine.
func (s *Source) FitsMemory() bool {
	d := s.Describe()
	need := d.Bytes * expansion
	if s.packed {
		need *= compression
	}
	return need < availableBytes()/4
}
