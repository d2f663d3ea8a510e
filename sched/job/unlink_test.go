package job

import (
	"context"
	"os"
	"testing"
	"time"

	"psrt/sched/coord/etcd"
)

// The folder of a keeper goes as soon as somebody ends its rank, and what it keeps is
// answered for a moment longer: a launcher may kill the rank before it has ended.
func TestFolderOfAKeeperThatEnds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked, end := context.WithCancel(ctx)
	defer end()
	k := &keeper{cfg: &RankConfig{asked: asked}}
	if err := k.openScratch(); err != nil {
		t.Fatal(err)
	}
	defer k.close()
	var err error
	if k.member, err = etcd.Start(ctx, k.scratch.Path, ""); err != nil {
		t.Fatal(err)
	}
	k.store = k.member.Store("/psrt/x/")
	k.unlinkAtEnd()
	if _, err := k.store.Put(ctx, "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	end()
	for {
		if _, err := os.Stat(k.scratch.Path); os.IsNotExist(err) {
			break
		}
		if pause(ctx, time.Millisecond); ctx.Err() != nil {
			t.Fatalf("%s is still there", k.scratch.Path)
		}
	}
	if _, err := k.store.Put(ctx, "k", []byte("behind it"), 0); err != nil {
		t.Errorf("it answers nobody any more: %v", err)
	}
}
