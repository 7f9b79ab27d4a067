//go:build !linux

package processors

// monitor is known on Linux alone.
type monitor struct{}

func (*monitor) look()    {}
func (*monitor) slow()    {}
func (*monitor) restore() {}
