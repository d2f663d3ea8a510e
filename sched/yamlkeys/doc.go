// Package yamlkeys says what is wrong with a YAML file that a user wrote for a Go struct, in
// the words of the file: which key is unknown and which was probably meant, which value is
// none of its kind. It owns the messages alone: who reads a file decides what it is for, and
// names it.
//
// A check is: the text becomes a node (yaml.v3), Unknown walks it beside the struct's type,
// the reader decodes it, and Plain translates what the decoder said. It is bounded by the
// file, whose size the reader bounds.
package yamlkeys
