package fold

// Level is one form of the arithmetic, slowest first.
type Level int32

// The forms.
const (
	Go Level = iota
	Portable
	AVX2
	AVX512
)

// Levels lists what this build and CPU can run.
func Levels() (out []Level) {
	for l := Go; l <= Best(); l++ {
		out = append(out, l)
	}
	return out
}
