package main

// main is there because Go wants one; a shared library is not started by it.
func main() {}
