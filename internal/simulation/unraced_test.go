//go:build !race

package simulation

func seeds(n uint64) uint64 { return n }
