package main

import (
	"testing"
	"time"

	"psrt/sched/kv"
)

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		says time.Duration
		env  string
		want time.Duration
		bad  bool
	}{{0, "", 0, false}, {0, "10s", 10 * time.Second, false}, {time.Second, "10s", time.Second, false}, {0, "0", 0, false}, {0, "soon", 0, true}, {0, "-1s", 0, true}} {
		cfg := kv.Config{StallAfter: kv.Duration(c.says)}
		err := environment(&cfg, func(name string) string {
			return map[string]string{envStallAfter: c.env, envAudit: "records"}[name]
		})
		if (err != nil) != c.bad || c.bad && kv.CodeOf(err) != kv.BadConfig || time.Duration(cfg.StallAfter) != c.want || (cfg.Say == nil) != c.bad || !c.bad && cfg.Audit != "records" {
			t.Errorf("%+v: %v, %v", c, time.Duration(cfg.StallAfter), err)
		}
	}
}

func TestEnvironmentReads(t *testing.T) {
	for _, c := range []struct {
		says, env, want string
		bad             bool
	}{{"", "", "", false}, {"", "any", kv.ReadAny, false}, {kv.ReadHead, "any", kv.ReadHead, false}, {"", "tail", "", true}} {
		cfg := kv.Config{Read: c.says}
		err := environment(&cfg, func(name string) string { return map[string]string{envRead: c.env}[name] })
		if (err != nil) != c.bad || c.bad && kv.CodeOf(err) != kv.BadConfig || cfg.Read != c.want {
			t.Errorf("%+v: %q, %v", c, cfg.Read, err)
		}
	}
}

func TestEnvironmentHotRows(t *testing.T) {
	for _, c := range []struct {
		says        int
		env         string
		rows, steps int
		bad         bool
	}{{0, "", 0, 0, false}, {0, "100", 100, 0, false}, {0, "100:7", 100, 7, false}, {50, "100:7", 50, 0, false}, {0, "many", 0, 0, true}, {0, "100:", 0, 0, true}, {0, "0:4", 0, 0, true}, {0, "100:0", 0, 0, true}, {0, "-1", 0, 0, true}} {
		cfg := kv.Config{HotRows: c.says}
		err := environment(&cfg, func(name string) string { return map[string]string{envHotRows: c.env}[name] })
		if (err != nil) != c.bad || c.bad && kv.CodeOf(err) != kv.BadConfig || cfg.HotRows != c.rows || cfg.HotStaleness != c.steps {
			t.Errorf("%+v: %d rows, %d steps, %v", c, cfg.HotRows, cfg.HotStaleness, err)
		}
	}
}
