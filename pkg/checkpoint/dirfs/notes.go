package dirfs

// Note is one thing that was done to a name.
type Note struct {
	Name string
	Did  Did
}

// Did is what was done to a name.
type Did int

const (
	Wrote  Did = iota // its file was made, or written
	Closed            // its file was closed after writing
	Named             // it was given by a rename
)

// Noter is a tree that keeps notes, in the order of what was done.
type Noter interface {
	// Notes are those since the first n; no note is ever removed.
	Notes(n int) []Note
}
