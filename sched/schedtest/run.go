package schedtest

import (
	"fmt"
	"strconv"
	"strings"

	"psrt/sched/clock"
	"psrt/sched/place"
)

// Run plays a script and returns its transcript. An error is the script's
// fault; what the cluster refuses is part of the transcript.
func Run(script string) (transcript string, err error) {
	r := &runner{}
	for i, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r.printf("> %s\n", strings.Join(words, " "))
		if err := r.command(words[0], words[1:]); err != nil {
			return r.out.String(), fmt.Errorf("line %d: %s: %w", i+1, strings.Join(words, " "), err)
		}
	}
	if l := r.lane; l != nil {
		if err := clock.Check(l.history, l.clock.Workers(), l.clock.Staleness()); err != nil {
			r.printf("BROKEN: %v\n", err)
		} else {
			r.printf("%d events keep the promise\n", len(l.history))
		}
	}
	return r.out.String(), nil
}

type runner struct {
	out  strings.Builder
	lane *lane
	m    *place.Map
}

func (r *runner) printf(format string, args ...any) { fmt.Fprintf(&r.out, format, args...) }

// commands and the number of arguments they take; -1 is one or more.
var commands = map[string]int{"lane": 3, "pull": 2, "push": 4, "poll": 0, "leave": 1, "servers": -1, "key": -1}

func (r *runner) command(name string, args []string) error {
	n, known := commands[name]
	switch {
	case !known:
		return fmt.Errorf("no such command")
	case n >= 0 && len(args) != n, n < 0 && len(args) == 0:
		return fmt.Errorf("%d arguments, want %d", len(args), max(n, 1))
	case name == "servers":
		return r.servers(args)
	case name == "key":
		return r.keys(args)
	case name == "lane":
		return r.newLane(args)
	case r.lane == nil:
		return fmt.Errorf("there is no lane yet")
	case name == "poll":
		r.lane.apply(r, true)
		r.lane.answer(r)
		return nil
	}
	num := make([]uint64, min(n, 3))
	for i := range num {
		var err error
		if num[i], err = strconv.ParseUint(args[i], 10, 64); err != nil {
			return err
		}
	}
	w := int(num[0])
	if w >= r.lane.clock.Workers() {
		return fmt.Errorf("there are %d workers", r.lane.clock.Workers())
	}
	switch name {
	case "pull":
		r.lane.pull(r, w, num[1])
	case "push":
		v, err := strconv.ParseFloat(args[3], 32)
		if err != nil {
			return err
		}
		r.lane.push(r, update{w, num[1], num[2], float32(v)})
	case "leave":
		r.lane.leave(r, w)
	}
	return nil
}

// newLane reads lane's key=value arguments.
func (r *runner) newLane(args []string) error {
	v := map[string]int{}
	for _, a := range args {
		key, s, _ := strings.Cut(a, "=")
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		v[key] = n
	}
	var err error
	r.lane, err = newLane(v["workers"], v["staleness"], v["leaves"])
	return err
}

// servers makes the first map, or changes it.
func (r *runner) servers(args []string) error {
	var servers []place.Server
	for _, a := range args {
		id, weight, weighted := strings.Cut(a, "x")
		s := place.Server{Lanes: 1}
		var err error
		if s.ID, err = strconv.Atoi(id); err != nil {
			return err
		}
		if weighted {
			if s.Weight, err = strconv.ParseFloat(weight, 64); err != nil {
				return err
			}
		}
		servers = append(servers, s)
	}
	old := r.m
	var err error
	if old == nil {
		r.m, err = place.New(1, 0, servers)
	} else {
		r.m, err = old.Change(servers)
	}
	if err != nil {
		return err
	}
	for i, n := range r.m.Owned() {
		r.printf("epoch %d: server %d has %d slots\n", r.m.Epoch, r.m.Servers[i].ID, n)
	}
	if old == nil {
		return nil
	}
	moves, err := place.Moves(old, r.m)
	if err != nil {
		return err
	}
	ways := map[[2]int]int{}
	for _, mv := range moves {
		ways[[2]int{mv.From, mv.To}]++
	}
	for _, a := range old.Servers {
		for _, b := range r.m.Servers {
			if n := ways[[2]int{a.ID, b.ID}]; n > 0 {
				r.printf("%d slots move from %d to %d\n", n, a.ID, b.ID)
			}
		}
	}
	return nil
}

func (r *runner) keys(args []string) error {
	if r.m == nil {
		return fmt.Errorf("there are no servers yet")
	}
	for _, a := range args {
		k, err := strconv.ParseUint(a, 10, 64)
		if err != nil {
			return err
		}
		r.printf("key %d: slot %d, server %d\n", k, r.m.SlotOf(k), r.m.Servers[r.m.ServerOf(r.m.LaneOf(k))].ID)
	}
	return nil
}
