package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The plot has one bar per target: how much of what is allowed is used up. All targets are met if
// all bars end left of the line. Sizes are in pixels.
const (
	plotWidth  = 1000
	plotLeft   = 410 // where bars begin
	plotScale  = 240 // of a bar that uses up all that is allowed
	plotMost   = 1.6 // longer bars are cut
	plotRow    = 38
	plotTop    = 64
	plotBottom = 44
)

// Colours that also differ in brightness.
const (
	colourMet    = "#3a7d5c"
	colourMissed = "#c2410c"
	colourText   = "#1f2937"
	colourFaint  = "#6b7280"
)

func drawPlot(criteria []criterion) string {
	height := plotTop + plotRow*len(criteria) + plotBottom
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	text := func(x, y int, anchor, style, colour, s string) {
		line(`<text x="%d" y="%d" text-anchor="%s" fill="%s" %s>%s</text>`, x, y, anchor, colour, style, escape(s))
	}
	line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="13">`, plotWidth, height)
	line(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	text(20, 28, "start", `font-size="17" font-weight="bold"`, colourText, "How much of each limit is used up")
	text(20, 48, "start", `font-size="12"`, colourFaint, "shorter is better; a bar beyond the line misses its target")
	for percent := 0; percent <= 150; percent += 25 {
		x := plotLeft + plotScale*percent/100
		line(`<path d="M%d %dV%d" stroke="#e5e7eb"/>`, x, plotTop, height-plotBottom)
		text(x, height-plotBottom+18, "middle", `font-size="11"`, colourFaint, fmt.Sprintf("%d %%", percent))
	}
	x := plotLeft + plotScale
	line(`<path d="M%d %dV%d" stroke="%s" stroke-width="1.5" stroke-dasharray="5 3"/>`, x, plotTop-8, height-plotBottom, colourText)
	text(x, plotTop-14, "middle", `font-size="12" font-weight="bold"`, colourText, "limit")
	work := ""
	for i, c := range criteria {
		y := plotTop + plotRow*i
		if c.work != work {
			if work != "" {
				line(`<path d="M20 %dH%d" stroke="#e5e7eb"/>`, y, plotWidth-20)
			}
			work = c.work
			text(20, y+17, "start", ``, colourText, c.work)
		}
		text(20, y+32, "start", `font-size="11"`, colourFaint, c.what+", "+c.wanted())
		colour, width := colourMet, int(float64(plotScale)*min(c.used(), plotMost))
		if !c.met() {
			colour = colourMissed
		}
		line(`<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="%s"/>`, plotLeft, y+9, max(width, 2), plotRow-18, colour)
		label := c.got()
		if !c.met() {
			label += ", missed"
		}
		if c.used() > plotMost {
			label += " (bar is cut)"
		}
		text(plotLeft+width+8, y+24, "start", `font-weight="bold" paint-order="stroke" stroke="#ffffff" stroke-width="4"`, colourText, label)
	}
	line(`</svg>`)
	return b.String()
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
