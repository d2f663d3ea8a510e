package level

// Go is the level of Go loops, the only one without cgo.
const Go = 0

var names = [...]string{"go", "c", "avx2", "avx512"}

// Name is what a level is called.
func Name[L ~int32](l L) string {
	if l < 0 || int(l) >= len(names) {
		return "unknown"
	}
	return names[l]
}

// UpTo lists all levels up to the best one, slowest first.
func UpTo[L ~int32](best L) []L {
	var all []L
	for l := L(Go); l <= best; l++ {
		all = append(all, l)
	}
	return all
}
