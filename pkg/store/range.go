package store

// End is the end of the range that holds exactly the keys below prefix.
func End(prefix string) string {
	b := []byte(prefix)
	b[len(b)-1]++
	return string(b)
}
