package lab

import (
	"context"
	"slices"
	"testing"
)

func TestPackagesWithAMatch(t *testing.T) {
	tests := Tests{Go: "go", Root: ".", Packages: []string{"./wire:Frame", "./..."}}
	programs, err := tests.list(context.Background(), "into")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range programs {
		got = append(got, p.Package+":"+p.Match)
	}
	want := []string{"psrt/bench/lab/wire:Frame", "psrt/bench/lab:", "psrt/bench/lab/guest:", "psrt/bench/lab/pair:", "psrt/bench/lab/wire:"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
