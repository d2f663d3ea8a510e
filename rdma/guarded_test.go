package rdma

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGuarded(t *testing.T) {
	gone, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(gone)
	for name, f := range map[string]func(){
		"panic": func() { panic("planted") },
		"nil":   func() { var p *int; *p = 1 },
		"fault": func() { gone[0] = 1 },
	} {
		told := make(chan any, 1)
		go Guarded(func(v any) { told <- v }, f)()
		v := <-told
		if _, ok := v.(runtime.Error); !ok && v != "planted" {
			t.Errorf("%s: told %v", name, v)
		}
	}
	ran := make(chan bool, 1)
	go Guarded(func(v any) { t.Errorf("told %v of nothing", v) }, func() { ran <- true })()
	<-ran
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic that nobody is told of was swallowed")
			}
		}()
		Guarded(nil, func() { panic("planted") })()
	}()
}
