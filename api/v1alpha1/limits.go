package v1alpha1

import "unicode/utf8"

// MaxMessage limits the message of a condition, the description of an error and of an operation, in
// bytes. The definitions limit characters, of which there are no more.
const MaxMessage = 4096

// Cut returns a text of at most so many bytes. "..." marks what was cut.
func Cut(text string, most int) string {
	const mark = "..."
	if len(text) <= most {
		return text
	}
	if most <= len(mark) {
		return mark[:most]
	}
	cut := most - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
