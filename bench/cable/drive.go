package cable

import (
	"context"
	"fmt"

	"psrt/bench/child"
)

// Run is the outermost process of a run: it starts the station over a link of this kind,
// tells it cfg, and gives heard each thing that it says, until heard is done with it.
// Errors of the start begin with suite.
func Run[Says any](ctx context.Context, suite, link string, part child.Command, cfg any, heard func(*Says) (done bool, err error)) error {
	if err := Tools(link); err != nil {
		return fmt.Errorf("%s: %w", suite, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := Start(ctx, part, Station, Namespaces(link))
	if err != nil {
		return fmt.Errorf("%s: %w", suite, Privilege(err))
	}
	defer st.Close(cancel)
	if err := st.Tell(cfg); err != nil {
		return err
	}
	for {
		says := new(Says)
		if err := st.Hear(says); err != nil {
			return err
		}
		if done, err := heard(says); done || err != nil {
			return err
		}
	}
}
