// Package randread measures random reads of single blocks through a
// blk.Device, and through fio on the same file: the limit that the device is
// held against.
//
// It owns the load and the checking of every block read: each tells its file
// and place, so that a reading of the wrong one cannot pass for speed. It must
// not know records, tables, or how results are shown.
//
// The life of one read: a place is drawn, the request joins the batch that the
// next Submit hands over; when it is answered the block's words are compared
// with its place, and the buffer is free for another.
package randread
