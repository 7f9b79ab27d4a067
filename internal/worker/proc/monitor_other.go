//go:build !linux

package proc

// monitor does nothing except on Linux.
type monitor struct{}

func (*monitor) look()    {}
func (*monitor) slow()    {}
func (*monitor) restore() {}
