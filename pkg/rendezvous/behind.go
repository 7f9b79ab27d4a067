package rendezvous

// Ahead reports whether the node of claim c knows more of its job than s shows: the store is
// behind. s must come from a linearizable read that began after the node learned what c says. Five
// cases are one: the store was wiped (no job), set back to an older copy (an older generation,
// commit or revision), set back to a job that was removed before this one was made, replaced by one
// that holds the job under a uid that it had before, or new nodes began the job anew there, and never
// ran it.
//
// Another job of the same name is not behind, and a job that succeeds c's is ahead of it.
func (c *Claim) Ahead(s *Snapshot) bool {
	if s.Job == nil || c.Job.Follows(s.Job.UID) || c.Outranks(s) {
		return true
	}
	if s.Job.UID != c.Job.UID {
		return false
	}
	return s.Fence < c.Generation || s.Head.Number < c.Known.Number || s.World == nil && c.World > 0 ||
		s.Cluster == c.Cluster && s.Rev < c.StoreRev
}

// Outranks reports whether s shows another job of that name, which gives way to that of claim c: it never
// ran, because nodes that knew nothing of c's made it, or it was removed before c's was made.
func (c *Claim) Outranks(s *Snapshot) bool {
	j := s.Job
	if j == nil || j.UID == c.Job.UID || j.Follows(c.Job.UID) {
		return false
	}
	return (s.Fence == 0 || c.Later(s)) && c.Ran() && c.Phase != Done
}

// Later reports whether the job of claim c was made in the store of s, after the one that s shows. A store
// has one job of a name at a time, so that one was removed, and the store set back to before.
func (c *Claim) Later(s *Snapshot) bool {
	return c.Cluster == s.Cluster && c.Job.Time.After(s.Job.Time)
}

// Ran reports whether the job ever had a World, as far as the node knows: there may be checkpoints of it.
func (c *Claim) Ran() bool { return c.World > 0 || c.Known.Number > 0 || c.Job.Ran }

// PassedOver reports whether the store was set back and the job then went on without the node of
// claim c: s has as many commits as that node knows of, and none of a step as late as that of the
// node's newest. A job that was taken back on purpose since then was not passed over.
func (c *Claim) PassedOver(s *Snapshot) bool {
	return s.Job != nil && s.World != nil && s.Job.UID == c.Job.UID && c.Known.Manifest != s.Head.Manifest &&
		c.Known.LaterStep(s.Head) && s.World.Rollback <= c.World && s.Fence == s.World.Generation
}

// Claimed reports whether a node that found the store behind claims the job, under its present uid
// or under an earlier or later one, or claims one that outranks it.
func (s *Snapshot) Claimed(j *Job) bool {
	outranked := func(c *Claim) bool { return s.Job != nil && j.UID == s.Job.UID && c.Outranks(s) }
	for i := range s.Claims {
		c := &s.Claims[i]
		if c.Behind && (c.Job.UID == j.UID || c.Job.Follows(j.UID) || j.Follows(c.Job.UID) || outranked(c)) {
			return true
		}
	}
	return false
}
