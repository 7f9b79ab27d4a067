//go:build race

package simulation

// seeds is how many of n a run with the race detector takes; `make unit` runs all of them without
// it, too. The detector itself has crashed under so many timers of synctest (go1.26.8: SIGSEGV in
// its own code, below synctest.Run), the more of them the more often.
func seeds(n uint64) uint64 { return max(1, n/8) }
