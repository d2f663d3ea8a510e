package doctor

import "fmt"

// SameEverywhere makes one finding of those that several others have of their machines, word
// for word: ranks of one host, or hosts of one kind. It is for people.
func SameEverywhere(all []Finding) []Finding {
	at := map[Finding]int{}
	var told []Finding
	var more []int
	for _, f := range all {
		words := f
		words.Peer = ""
		i, known := at[words]
		if !known || !f.theirs {
			i = len(told)
			if f.theirs {
				at[words] = i
			}
			told, more = append(told, f), append(more, 0)
			continue
		}
		more[i]++
	}
	for i, n := range more {
		if n > 0 {
			told[i].Peer = fmt.Sprintf("%s and %d more", told[i].Peer, n)
		}
	}
	return told
}
