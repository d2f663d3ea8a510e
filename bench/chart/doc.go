// Package chart draws curves as SVG for the pages that reports are written to.
//
// It owns axes, ticks and colours. It must not know what is drawn: callers give
// a title, curves and the kinds of axes, and put the text they get into a page.
// The pages need no script and nothing from elsewhere.
package chart
