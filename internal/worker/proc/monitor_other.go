//go:build !linux

package processors

// monitor does nothing except on Linux.
type monitor struct{}

func (*monitor) look()    {}
func (*monitor) slow()    {}
func (*monitor) restore() {}
