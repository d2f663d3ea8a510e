package codec

// Level is one form of the codecs. All give the same bits; the package functions use
// Best, tests run every level.
type Level int32

const (
	Go       Level = iota // Go loops
	Portable              // C for any CPU
	AVX2                  // with F16C
	AVX512                // F, BW, DQ, VL
)

// String is the level's name.
func (l Level) String() string {
	switch l {
	case Go:
		return "go"
	case Portable:
		return "c"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return "unknown"
}

// Levels lists the levels that this build and CPU can run, slowest first.
func Levels() []Level {
	var out []Level
	for l := Go; l <= Best(); l++ {
		out = append(out, l)
	}
	return out
}
