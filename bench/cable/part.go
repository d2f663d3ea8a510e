package cable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"psrt/bench/child"
)

// Roles of a run's other processes.
const (
	Station = "station" // the workers, and who measures
	Server  = "server"
	Switch  = "switch"
)

// Part is the body of another process: it hears and says JSON until it hears no more.
type Part func(ctx context.Context, from *json.Decoder, to *json.Encoder) error

// Serve runs a role's body.
func Serve(parts map[string]Part, role string, in io.Reader, out io.Writer) error {
	body := parts[role]
	if body == nil {
		return fmt.Errorf("there is no part %q of a run", role)
	}
	return body(context.Background(), json.NewDecoder(in), json.NewEncoder(out))
}

// Start starts the program again, with a role as its last argument.
func Start(ctx context.Context, c child.Command, role string, unshare uintptr) (*child.Child, error) {
	c.Args = append(slices.Clone(c.Args), role)
	c.Unshare = unshare
	return child.Start(ctx, c)
}
