// Package wire is what the lab's two halves say to each other: the host, which
// started the machine, and the agent inside it, over one byte stream (a virtio
// serial port).
//
// It owns the frame format and the messages. It must not know what a command
// is for, nor how the stream came to be.
//
// The life of one command: the host writes KindRun with a Command; the agent
// answers with any number of KindStdout and KindStderr and at last one
// KindExit. Meanwhile the host may write KindSignal. KindQuit ends the
// conversation, and the agent answers it with KindBye.
//
// A frame is
//
//	byte    kind
//	uint32  length of the payload, little-endian, at most MaxPayload
//	bytes   payload: raw for the two outputs, one byte for a signal, else JSON
package wire
