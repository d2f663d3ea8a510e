package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// JoinJSON lets a flag whose value is optional, --json or one of more, be
// followed by a file name: pflag wants an equals sign there.
func JoinJSON(args []string, more ...string) []string {
	flags := append([]string{"--json"}, more...)
	var out []string
	for i := 0; i < len(args); i++ {
		if slices.Contains(flags, args[i]) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			out = append(out, args[i]+"="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// OpenOutput opens where the flag's output goes before the work, not after:
// nil for "", standard output for "-".
func OpenOutput(flag, name string) (io.WriteCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return os.Stdout, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, Usagef("--%s: %w", flag, err)
	}
	return f, nil
}

// Interruptible is a context that SIGINT and SIGTERM end; a second signal ends
// the process as usual.
func Interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&interrupted{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return "ended by " + i.signal.String() }

// Interrupted says that somebody asked for this end, who knows why.
func (i *interrupted) Interrupted() bool { return true }

// EndsJob says that it was Ctrl-C: a person wants all of it to end, of which this process
// may be one of many. Others that end a process, as a batch system does that takes a host
// away, may mean that one alone.
func (i *interrupted) EndsJob() bool { return i.signal == os.Interrupt }

// InterruptedOr is the signal that ended ctx, else err.
func InterruptedOr(ctx context.Context, err error) error {
	var i *interrupted
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return err
}
