package limits

import "testing"

func TestCheck(t *testing.T) {
	if err := Check("bread", Limit{3, "rounds", 3, 4}, Limit{4, "rounds", 3, 4}); err != nil {
		t.Error(err)
	}
	for want, all := range map[string][]Limit{
		"bread: 2 rounds, want 3 to 4":                          {{2, "rounds", 3, 4}},
		"bread: 5 rounds, want 3 to 4":                          {{1, "bytes", 1, 1}, {5, "rounds", 3, 4}},
		"bread: 0 entries in the list of bytes, want 1 to 1024": Each(nil, "bytes", 1, 2),
		"bread: 7 bytes, want 1 to 2":                           Each([]int{1, 2, 7}, "bytes", 1, 2),
	} {
		if err := Check("bread", all...); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
