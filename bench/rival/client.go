package rival

import (
	"fmt"
	"io"
)

// Client asks one server over one stream.
type Client struct {
	stream io.ReadWriter
	out    []byte // the message being built
	in     []byte // the reply
}

// NewClient uses the stream alone.
func NewClient(stream io.ReadWriter) *Client { return &Client{stream: stream} }

// Pull copies the rows of keys into values, floats each.
func (c *Client) Pull(keys []uint64, floats int, values []float32) error {
	if len(values) != len(keys)*floats {
		return fmt.Errorf("rival: room for %d floats, %d rows of %d need %d", len(values), len(keys), floats, len(keys)*floats)
	}
	h := header{kindPull, uint32(len(keys)), uint32(floats)}
	c.begin(h)
	c.out = append(c.out, bytesOf(keys)...)
	if _, err := c.stream.Write(c.out); err != nil {
		return err
	}
	got, err := c.reply(kindValues)
	if err == nil && (got.rows != h.rows || got.floats != h.floats) {
		err = fmt.Errorf("%w: asked for %d rows of %d, got %d of %d", errMessage, h.rows, h.floats, got.rows, got.floats)
	}
	if err != nil {
		return err
	}
	copy(bytesOf(values), c.in)
	return nil
}

// Push adds gradients to the rows of keys and waits until that is done.
func (c *Client) Push(keys []uint64, floats int, grads []float32) error {
	if len(grads) != len(keys)*floats {
		return fmt.Errorf("rival: %d floats of gradients, %d rows of %d need %d", len(grads), len(keys), floats, len(keys)*floats)
	}
	c.begin(header{kindPush, uint32(len(keys)), uint32(floats)})
	c.out = append(c.out, bytesOf(keys)...)
	c.out = append(c.out, bytesOf(grads)...)
	if _, err := c.stream.Write(c.out); err != nil {
		return err
	}
	_, err := c.reply(kindDone)
	return err
}

func (c *Client) begin(h header) {
	if cap(c.out) < HeadBytes {
		c.out = make([]byte, 0, 1<<16)
	}
	c.out = c.out[:HeadBytes]
	h.put(c.out)
}

func (c *Client) reply(kind uint32) (h header, err error) {
	h, c.in, err = receive(c.stream, c.in)
	if err == nil && h.kind != kind {
		err = fmt.Errorf("%w: kind %d where %d must come", errMessage, h.kind, kind)
	}
	return h, err
}
