package discover

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestOverridesThatCannotBeMet(t *testing.T) {
	for _, tc := range []struct {
		o    Overrides
		want []string
	}{
		{Overrides{Devices: []Selector{{"mlx5", 0}}}, []string{"--device mlx5", "mlx5_0, mlx5_1, mlx5_2, rxe0", "whole"}},
		{Overrides{Devices: []Selector{{"mlx5_0", 2}}}, []string{"--device mlx5_0:2", "has port 1"}},
		{Overrides{Devices: []Selector{{"mlx5_0", 1}}, Port: 2}, []string{"--device mlx5_0:1 and --port 2 contradict"}},
		{Overrides{Port: 3}, []string{"--port 3", "mlx5_0 has port 1", "rxe0 has port 1"}},
		{Overrides{Devices: []Selector{{"rxe0", 0}}, Port: 3}, []string{"--port 3: rxe0 has port 1"}},
		{Overrides{Devices: []Selector{{"mlx5_1", 0}}, PinGID: true, GIDIndex: 7},
			[]string{"--gid-index 7: mlx5_1 port 1 has 0..3:", "3 is RoCE v2 10.77.0.3", "0 is RoCE v1 fe80::"}},
		{Overrides{Devices: []Selector{{"mlx5_0", 0}}, PinGID: true, GIDIndex: 0}, []string{"--gid-index 0: mlx5_0 port 1 has 1..4"}},
		{Overrides{Devices: []Selector{{"mlx5_2", 0}}}, []string{"--device mlx5_2 cannot be used", "port 1: is DOWN", "ip link set eth2 up"}},
		{Overrides{Devices: []Selector{{"mlx5_0", 0}, {"mlx5_2", 1}}}, []string{"--device mlx5_2:1 cannot be used"}},
	} {
		in := twoCards(t)
		in.Overrides = tc.o
		_, err := Choose(in)
		var o *OverrideError
		if !errors.As(err, &o) {
			t.Errorf("%s: %v", tc.o, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", tc.o, err, want)
			}
		}
	}
}

func TestOverridesThatAreMet(t *testing.T) {
	in := twoCards(t)
	in.Overrides = Overrides{Devices: []Selector{{"mlx5_1", 1}}, PinGID: true, GIDIndex: 0}
	c := choose(t, in)
	if r := c.Rails[0]; len(c.Rails) != 1 || r.GIDIndex != 0 || r.GID.Type != RoCEv1 || !strings.Contains(c.String(), "by --device mlx5_1:1 --gid-index 0") {
		t.Errorf("%v", c)
	}
	in.Overrides = Overrides{PinGID: true, GIDIndex: 4}
	if c := choose(t, in); names(c) != "mlx5_0" {
		t.Errorf("only mlx5_0 has a GID 4: %v", c)
	}
}

func TestParseDevices(t *testing.T) {
	for text, want := range map[string][]Selector{
		"mlx5_0":             {{"mlx5_0", 0}},
		"mlx5_0:1":           {{"mlx5_0", 1}},
		"mlx5_0:1, mlx5_0:2": {{"mlx5_0", 1}, {"mlx5_0", 2}},
		"mlx5_1,mlx5_10":     {{"mlx5_1", 0}, {"mlx5_10", 0}},
		"":                   nil, "a,": nil, "a:": nil, "a:0": nil, "a:256": nil, "a:x": nil, "../a": nil, "a,a": nil, "a:1,a": nil, "a:1:2": nil,
	} {
		got, err := ParseDevices(text)
		if (err == nil) != (want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add("mlx5_0:1,mlx5_1")
	f.Add("a:1:2")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseDevices(text)
		if err != nil {
			return
		}
		var parts []string
		for _, s := range list {
			parts = append(parts, s.String())
		}
		again, err := ParseDevices(strings.Join(parts, ","))
		if err != nil || !reflect.DeepEqual(again, list) {
			t.Errorf("%q: %v, then %v, %v", text, list, again, err)
		}
	})
}
