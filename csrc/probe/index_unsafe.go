package probe

import (
	"fmt"
	"unsafe"
)

func asBucket(b []byte) *bucket {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%BucketBytes != 0 {
		panic(fmt.Sprintf("probe: a segment at %p, want alignment to %d bytes", p, BucketBytes))
	}
	return (*bucket)(p)
}

// at is bucket b of a table. Precondition: b < st.buckets[which].
func (x *Index) at(which int, b uint64) *bucket {
	seg := unsafe.Pointer(x.segs[which][b>>x.st.segShift])
	return (*bucket)(unsafe.Add(seg, b&(1<<x.st.segShift-1)*BucketBytes))
}
