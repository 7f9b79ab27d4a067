package capture

// Reason is the word by which an event says why a save was not taken.
type Reason string

const (
	Torn        Reason = "torn"          // not whole, or changed while it was read
	Unsettled   Reason = "unsettled"     // not known to be complete; it may be taken later
	NoSpace     Reason = "no-space"      // the disk of the state directory is full
	Disk        Reason = "disk"          // that disk failed, or refuses to be written
	Unreadable  Reason = "unreadable"    // the checkpoint directory, or a file in it, cannot be read
	BadPath     Reason = "bad-path"      // a name that no manifest may have
	TooFewNodes Reason = "too-few-nodes" // no other node took a copy
	Fenced      Reason = "fenced"        // a newer generation exists
	MissingPart Reason = "missing-part"  // a node, or a shard, is not in the save
	MixedParts  Reason = "mixed-parts"   // the parts of the nodes contradict each other
)

// Refusal is a save that is not taken.
type Refusal struct {
	Reason Reason
	Path   string
	Step   *int64
	Err    error
}
