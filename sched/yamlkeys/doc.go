// Package yamlkeys says what is wrong with a YAML file that a user wrote for a Go struct, in
// the words of the file: which key is unknown and which was probably meant, which value is
// none of its kind. It owns the messages alone: who reads a file decides what it is for, and
// names it.
//
// Decode makes a node of the text (yaml.v3), walks it beside the struct's type for keys that
// the struct has no field for, decodes it, and translates what the decoder said. It is bounded
// by the text, whose size the reader bounds.
package yamlkeys
