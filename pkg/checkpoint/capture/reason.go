package capture

// Reason is the code of an event that says why a save was not taken.
type Reason string

const (
	Torn        Reason = "torn"          // the save is incomplete, or changed while it was read
	Unsettled   Reason = "unsettled"     // not known to be complete; it may be taken later
	NoSpace     Reason = "no-space"      // the disk of the state directory is full
	Disk        Reason = "disk"          // the disk of the state directory failed, or is read-only
	Unreadable  Reason = "unreadable"    // the checkpoint directory, or a file in it, cannot be read
	BadPath     Reason = "bad-path"      // a manifest may not have the name of a file
	TooFewNodes Reason = "too-few-nodes" // no other node took a copy
	Fenced      Reason = "fenced"        // a newer generation exists
	MissingPart Reason = "missing-part"  // the part of a node, or a shard, is missing
	MixedParts  Reason = "mixed-parts"   // the parts of the nodes contradict each other
)

// Refusal says that a save is not taken, and why.
type Refusal struct {
	Reason Reason
	Path   string
	Step   *int64
	Err    error
}
