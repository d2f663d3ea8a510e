// Package usage reads what this process has used so far: peak memory and CPU
// time, the two numbers that every rank reports. It must not know who asks.
//
// The life of one request: Process asks the kernel (getrusage) and converts.
package usage
