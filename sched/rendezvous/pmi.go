package rendezvous

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pmiExchange speaks version 1 of the PMI wire protocol, lines of words such as
// "cmd=put kvsname=k key=a value=b", which SLURM's pmi2 plugin and hydra
// understand. One call is under way at a time.
type pmiExchange struct {
	f           *os.File
	r           *bufio.Reader
	rank, world int
	space       string
	valueMax    int // bytes of a value
}

const (
	pmiLine     = 64 << 10 // bytes of a line, at most
	pmiLeast    = 64       // bytes of a value, at least
	pmiPieceMax = 1 << 10  // pieces of a word, at most
)

func openPMI(ctx context.Context, fd string, rank, world int) (*pmiExchange, error) {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("PMI_FD=%q is not a descriptor", fd)
	}
	if err := syscall.SetNonblock(n, true); err != nil { // so that deadlines work
		return nil, fmt.Errorf("PMI_FD=%q: %w", fd, err)
	}
	return greetPMI(ctx, os.NewFile(uintptr(n), "PMI"), rank, world)
}

func greetPMI(ctx context.Context, f *os.File, rank, world int) (*pmiExchange, error) {
	e := &pmiExchange{f: f, r: bufio.NewReaderSize(f, pmiLine), rank: rank, world: world}
	if _, err := e.call(ctx, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1"); err != nil {
		return nil, err
	}
	limits, err := e.call(ctx, "maxes", "cmd=get_maxes")
	if err != nil {
		return nil, err
	}
	e.valueMax, _ = strconv.Atoi(limits["vallen_max"])
	if e.valueMax -= 1; e.valueMax < pmiLeast { // its NUL
		return nil, fmt.Errorf("PMI: values of %q bytes, want at least %d", limits["vallen_max"], pmiLeast+1)
	}
	e.valueMax = min(e.valueMax, pmiLine/2)
	space, err := e.call(ctx, "my_kvsname", "cmd=get_my_kvsname")
	if e.space = space["kvsname"]; err == nil && e.space == "" {
		err = errors.New("PMI: the server gives no name for the job's keys")
	}
	return e, err
}

// call sends a line and reads the answer of the given kind.
func (e *pmiExchange) call(ctx context.Context, answer, format string, args ...any) (map[string]string, error) {
	stop := context.AfterFunc(ctx, func() { _ = e.f.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	line := fmt.Sprintf(format, args...) + "\n"
	_, err := e.f.WriteString(line)
	var reply []byte
	if err == nil {
		reply, err = e.r.ReadSlice('\n')
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("PMI: %.60q: %w", line, err)
	}
	words, err := pmiWords(string(reply))
	if err != nil {
		return nil, err
	}
	if rc := words["rc"]; words["cmd"] != answer || rc != "" && rc != "0" {
		return nil, fmt.Errorf("PMI: %.60q was answered with %.200q", line, reply)
	}
	return words, nil
}

// pmiWords takes a line apart. The last value may have spaces ("msg=...").
func pmiWords(line string) (map[string]string, error) {
	words := map[string]string{}
	last := ""
	for _, w := range strings.Fields(line) {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case ok && name != "":
			words[name], last = value, name
		case last != "":
			words[last] += " " + w
		default:
			return nil, fmt.Errorf("PMI: the server says %.200q, want words of the form name=value", line)
		}
	}
	return words, nil
}

func (e *pmiExchange) Name() string { return "PMI" }

// Round cuts the word into pieces that the server takes; the first begins with
// their number.
func (e *pmiExchange) Round(ctx context.Context, name string, word []byte) ([][]byte, error) {
	if err := checkRound(ctx, name, word); err != nil {
		return nil, err
	}
	began := time.Now()
	for i, piece := range pmiCut(base64.RawURLEncoding.EncodeToString(word), e.valueMax) {
		if _, err := e.call(ctx, "put_result", "cmd=put kvsname=%s key=%s value=%s", e.space, pmiKey(name, e.rank, i), piece); err != nil {
			return nil, err
		}
	}
	if _, err := e.call(ctx, "barrier_out", "cmd=barrier_in"); err != nil {
		if ctx.Err() != nil {
			return nil, &MissingError{By: e.Name(), Waited: time.Since(began), World: e.world, Cause: err}
		}
		return nil, err
	}
	all := make([][]byte, e.world)
	for r := range all {
		text, err := e.word(ctx, name, r)
		if err == nil {
			all[r], err = base64.RawURLEncoding.DecodeString(text)
		}
		if err != nil {
			return nil, fmt.Errorf("rendezvous: the word of rank %d: %w", r, err)
		}
	}
	return all, nil
}

func pmiKey(name string, rank, piece int) string {
	return fmt.Sprintf("psrt-%s-%d-%d", name, rank, piece)
}

// pmiCut makes pieces of at most size bytes: "<number of pieces>." begins the first.
func pmiCut(text string, size int) []string {
	n := 1
	for len(text)+len(strconv.Itoa(n))+1 > n*size {
		n++
	}
	text = fmt.Sprintf("%d.%s", n, text)
	pieces := make([]string, 0, n)
	for range n {
		k := min(size, len(text))
		pieces, text = append(pieces, text[:k]), text[k:]
	}
	return pieces
}

func (e *pmiExchange) word(ctx context.Context, name string, rank int) (string, error) {
	text, n := "", 1
	for i := 0; i < n; i++ {
		a, err := e.call(ctx, "get_result", "cmd=get kvsname=%s key=%s", e.space, pmiKey(name, rank, i))
		if err != nil {
			return "", err
		}
		piece := a["value"]
		if i == 0 {
			count, rest, _ := strings.Cut(piece, ".")
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > pmiPieceMax {
				return "", fmt.Errorf("PMI: %.20q is not a number of pieces", count)
			}
			piece = rest
		}
		text += piece
	}
	return text, nil
}

func (e *pmiExchange) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	_, err := e.call(ctx, "finalize_ack", "cmd=finalize")
	return errors.Join(err, e.f.Close())
}
