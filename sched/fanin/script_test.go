package fanin

import (
	"fmt"
	"strings"
	"testing"
)

// play runs a script, a call per line, and returns what each made the policy
// grant: worker/transfer@offset+KiB.
//
//	announce W ID KIND KIB, land W ID KIB, cancel W ID, leave W, wait MICROS, answers KIB
func play(t *testing.T, p *Policy, script string) string {
	var log strings.Builder
	var now int64
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line = strings.TrimSpace(line)
		var w int
		var id uint64
		var kib int64
		var kind string
		op, rest, _ := strings.Cut(line, " ")
		scan := func(args ...any) {
			if _, err := fmt.Sscan(rest, args...); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		var err error
		switch op {
		case "announce":
			scan(&w, &id, &kind, &kib)
			err = p.Announce(w, id, kib<<10, map[string]Kind{"pull": Pull, "push": Push}[kind], now)
		case "land":
			scan(&w, &id, &kib)
			_, err = p.Arrived(w, id, kib<<10, now)
		case "cancel":
			scan(&w, &id)
			_, err = p.Cancel(w, id, now)
		case "leave":
			scan(&w)
			err = p.Leave(w, now)
		case "answers":
			scan(&kib)
			p.Answers(kib << 10)
		case "wait":
			var micros int64
			scan(&micros)
			now += micros * 1000
		default:
			t.Fatalf("no such call: %q", line)
		}
		fmt.Fprintf(&log, "%s:", line)
		if err != nil {
			fmt.Fprintf(&log, " %v", err)
		}
		for _, g := range p.Grants(now, nil) {
			fmt.Fprintf(&log, " %d/%d@%d+%d", g.Worker, g.ID, g.Offset>>10, g.Bytes>>10)
		}
		log.WriteByte('\n')
	}
	return log.String()
}

// The link carries 100 KiB, the chunk, in 10.24 us; the window is 3 chunks.
const (
	scriptRate = 10_240_000_000
	scriptRTT  = 20_000
)

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
	}{
		{"a transfer is granted within the window and once", `
			announce 0 1 push 550
			land 0 1 100
			land 0 1 100
			land 0 1 100
			land 0 1 100`, `
			announce 0 1 push 550: 0/1@0+100 0/1@100+100 0/1@200+100
			land 0 1 100: 0/1@300+100
			land 0 1 100: 0/1@400+75
			land 0 1 100: 0/1@475+75
			land 0 1 100:`},
		{"workers take turns, whoever has more", `
			announce 0 1 push 900
			announce 0 2 push 900
			announce 1 1 push 900
			announce 2 1 push 900
			land 0 1 100
			land 0 1 100
			land 0 1 100
			land 1 1 100`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 0 2 push 900:
			announce 1 1 push 900:
			announce 2 1 push 900:
			land 0 1 100: 0/1@300+100
			land 0 1 100: 1/1@0+100
			land 0 1 100: 2/1@0+100
			land 1 1 100: 0/1@400+100`},
		{"small transfers come up to the bytes of large ones", `
			announce 0 1 push 300
			announce 1 1 push 50
			announce 1 2 push 50
			announce 2 1 push 300
			land 0 1 100
			land 0 1 100
			land 0 1 100
			land 1 1 50`, `
			announce 0 1 push 300: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 1 1 push 50:
			announce 1 2 push 50:
			announce 2 1 push 300:
			land 0 1 100: 1/1@0+50 1/2@0+50
			land 0 1 100: 2/1@0+100
			land 0 1 100: 2/1@100+100
			land 1 1 50:`},
		{"pulls go first, but a push after PullRun bytes of them", `
			announce 0 1 push 900
			announce 1 1 pull 900
			land 0 1 100
			land 0 1 100
			land 0 1 100
			land 1 1 100
			land 1 1 100`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 1 1 pull 900:
			land 0 1 100: 1/1@0+100
			land 0 1 100: 1/1@100+100
			land 0 1 100: 0/1@300+100
			land 1 1 100: 1/1@200+100
			land 1 1 100: 1/1@300+100`},
		{"a late worker's place is lent, and counts again when it is heard", `
			announce 0 1 push 900
			announce 1 1 push 900
			wait 74
			wait 1
			land 1 1 100
			land 0 1 100
			land 1 1 100
			land 0 1 100
			land 1 1 100
			land 1 1 100`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 1 1 push 900:
			wait 74:
			wait 1: 1/1@0+100 1/1@100+100 1/1@200+100
			land 1 1 100: 1/1@300+100
			land 0 1 100:
			land 1 1 100:
			land 0 1 100:
			land 1 1 100: 1/1@400+100
			land 1 1 100: 0/1@300+100`},
		{"one set aside comes back on trial, with a chunk", `
			announce 0 1 push 900
			wait 1000
			land 0 1 100
			land 0 1 100
			land 0 1 100
			land 0 1 100`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			wait 1000:
			land 0 1 100:
			land 0 1 100:
			land 0 1 100: 0/1@300+100 0/1@400+100 0/1@500+100
			land 0 1 100: 0/1@600+100`},
		{"what is granted is owed after a cancel", `
			announce 0 1 push 900
			cancel 0 1
			announce 0 2 push 900
			land 0 1 100
			land 0 1 200
			land 0 1 1`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			cancel 0 1:
			announce 0 2 push 900:
			land 0 1 100: 0/2@0+100
			land 0 1 200: 0/2@100+100 0/2@200+100
			land 0 1 1: fanin: arrived: worker 0, transfer 1: no such transfer: never announced, ended, or its worker left (0, limit 1)`},
		{"answers on their way make the window as much larger, up to a bound, while they are", `
			announce 0 1 push 2000
			answers 150
			answers 900
			wait 40
			land 0 1 100
			answers -900
			answers -150
			land 0 1 500
			land 0 1 500
			land 0 1 100`, `
			announce 0 1 push 2000: 0/1@0+100 0/1@100+100 0/1@200+100
			answers 150: 0/1@300+100
			answers 900: 0/1@400+100 0/1@500+100 0/1@600+100 0/1@700+100 0/1@800+100 0/1@900+100
			wait 40: 0/1@1000+100 0/1@1100+100 0/1@1200+100
			land 0 1 100: 0/1@1300+100
			answers -900:
			answers -150:
			land 0 1 500:
			land 0 1 500:
			land 0 1 100: 0/1@1400+100`},
		{"who leaves frees the window and may come back", `
			announce 0 1 push 900
			announce 1 1 push 900
			leave 0
			land 0 1 100
			announce 0 1 push 900
			land 1 1 100`, `
			announce 0 1 push 900: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 1 1 push 900:
			leave 0: 1/1@0+100 1/1@100+100 1/1@200+100
			land 0 1 100: fanin: arrived: worker 0, transfer 1: no such transfer: never announced, ended, or its worker left (0, limit 0)
			announce 0 1 push 900:
			land 1 1 100: 1/1@300+100`},
		{"transfers per worker are bounded", `
			announce 0 1 push 500
			announce 0 2 push 500
			announce 0 3 push 500
			announce 0 1 push 500`, `
			announce 0 1 push 500: 0/1@0+100 0/1@100+100 0/1@200+100
			announce 0 2 push 500:
			announce 0 3 push 500:
			announce 0 1 push 500: fanin: announce: worker 0, transfer 1: too many transfers of this worker are announced; it must wait for one to end (4, limit 3)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(Config{Workers: 3, Transfers: 3, PullRun: 200 << 10})
			if err != nil {
				t.Fatal(err)
			}
			p.Measured(scriptRTT, scriptRate)
			got := play(t, p, c.script)
			want := strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "") + "\n"
			if got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
