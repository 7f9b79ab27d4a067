package store

// End is the end of the range that holds exactly the keys below prefix.
func End(prefix string) string {
	b := []byte(prefix)
	b[len(b)-1]++
	return string(b)
}

// Range is the keys from From to before End; End "" means the key From alone. A read returns at
// most Most entries of it; 0: all.
type Range struct {
	From, End string
	Most      int
}

// One is the range that holds one key.
func One(key string) Range { return Range{From: key} }

// Below is the range that holds the keys below prefix.
func Below(prefix string) Range { return Range{From: prefix, End: End(prefix)} }
