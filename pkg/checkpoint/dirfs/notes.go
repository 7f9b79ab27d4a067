package dirfs

// Note is one change of a name.
type Note struct {
	Name string
	Did  Did
}

// Did is the kind of a change.
type Did int

const (
	Wrote   Did = iota // the file was written
	Closed             // the file was closed after writing
	Named              // a file was renamed to the name
	Removed            // the name was removed, or given up by a rename
	Made               // the name was made: the file is empty, or the name is a link to it
	Touched            // its times or rights were set
)

// Noter is a tree that keeps notes of its changes, in order.
type Noter interface {
	// Notes returns the notes after the first n. No note is ever removed.
	Notes(n int) []Note
}
