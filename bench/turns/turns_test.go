package turns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPlay(t *testing.T) {
	var order []string
	loop := func(name string, seconds ...float64) Loop {
		return func(_ context.Context, round int) (Took, error) {
			order = append(order, fmt.Sprint(name, round))
			return Took{Wall: seconds[round], CPU: 2 * seconds[round]}, nil
		}
	}
	g := Game{Op: "x", Bytes: 100, Messages: 1e6, Rounds: 3,
		Ours: loop("ours", 100, 0.2, 0.4, 0.1), Limit: loop("limit", 100, 0.1, 0.1, 0.1)}
	row, err := g.Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ours0", "limit0", "limit1", "ours1", "ours2", "limit2", "limit3", "ours3"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %g, want %g", what, got, want)
		}
	}
	near("avg", row.Bandwidth.Avg, 0.5)
	near("peak", row.Bandwidth.Peak, 1)
	near("rate", row.Bandwidth.Rate, 5)
	near("limit", row.Limit, 1)
	near("ratio", row.Ratio, 0.5)
	near("cpu", row.CPUSecondsPerGB, (4.0+8+2)/3)
	if row.Iterations != 3e6 || row.Bytes != 100 || row.Op != "x" {
		t.Errorf("%+v", row)
	}
}

// Without a warm-up the first round is number 1 all the same.
func TestCold(t *testing.T) {
	var rounds []int
	loop := func(_ context.Context, round int) (Took, error) {
		rounds = append(rounds, round)
		return Took{Wall: 1}, nil
	}
	g := Game{Op: "x", Bytes: 1, Messages: 1, Rounds: 2, Cold: true, Ours: loop, Limit: loop}
	if row, err := g.Play(t.Context()); err != nil || !slices.Equal(rounds, []int{1, 1, 2, 2}) || row.Iterations != 2 {
		t.Errorf("rounds %v of %d messages, %v", rounds, row.Iterations, err)
	}
}

func TestPlayErrors(t *testing.T) {
	ok := func(context.Context, int) (Took, error) { return Took{Wall: 1}, nil }
	broken := errors.New("broken")
	bad := func(context.Context, int) (Took, error) { return Took{}, broken }
	none := func(context.Context, int) (Took, error) { return Took{}, nil }
	game := Game{Op: "x", Bytes: 1, Messages: 1, Rounds: 1, Ours: ok, Limit: bad}
	if _, err := game.Play(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "x: limit") {
		t.Errorf("limit: %v", err)
	}
	game.Ours = bad
	if _, err := game.Play(t.Context()); !errors.Is(err, broken) || strings.Contains(err.Error(), "limit") {
		t.Errorf("ours: %v", err)
	}
	game.Ours = none
	if _, err := game.Play(t.Context()); err == nil || !strings.Contains(err.Error(), "more a round") {
		t.Errorf("no time: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	game.Ours, game.Limit = ok, ok
	if _, err := game.Play(ctx); !errors.Is(err, broken) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}} {
		if got := Median(c.v); got != c.want {
			t.Errorf("%v: %g", c.v, got)
		}
	}
}

func TestThreadCPU(t *testing.T) {
	if a := ThreadCPU(); a <= 0 {
		t.Errorf("%g s", a)
	}
}
