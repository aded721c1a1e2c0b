package store

// Failure is an error of a store or of the way to it in the words of the port, as providers make
// them of their own: what it is, what was said, and what to do about it.
type Failure struct {
	Kind   error  // one of this package's errors; nil if none fits
	Said   string // by the server, or of it; one line
	Remedy string // empty: none is known
	Cause  error
}

func (f *Failure) Error() string {
	text := f.Said
	if f.Kind != nil {
		text = f.Kind.Error() + ": " + text
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

func (f *Failure) Unwrap() []error {
	if f.Kind == nil {
		return []error{f.Cause}
	}
	return []error{f.Kind, f.Cause}
}
