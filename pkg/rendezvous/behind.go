package rendezvous

import "slices"

// Ahead reports whether the store is behind: the node of claim c knows more of its job than s
// shows. s must come from a linearizable read that began after the node learned what c says. A
// store is behind if it was wiped (it has no job), was set back to an older copy (it shows an older
// generation, commit or revision, or a job that was removed before c's was made), holds the job
// under an earlier uid, or holds a job of that name that new nodes made and that never ran.
//
// The store is not behind if it holds an unrelated job of the same name, or one that was made again
// from the job of c.
func (c *Claim) Ahead(s *Snapshot) bool {
	if s.Job == nil || c.Job.Follows(s.Job.UID) || c.Outranks(s) {
		return true
	}
	if s.Job.UID != c.Job.UID {
		return false
	}
	return s.Fence < c.Generation || s.Head.Number < c.Known.Number || s.Head.Before(c.Known) ||
		s.World == nil && c.World > 0 || s.World != nil && s.World.Order < c.WorldOrder ||
		s.Cluster == c.Cluster && s.Rev < c.StoreRev
}

// Outranks reports whether the job of claim c replaces another job that s shows: one that never ran,
// because nodes that did not know the job of c made it, or one that was removed before the job of c
// was made.
func (c *Claim) Outranks(s *Snapshot) bool {
	j := s.Job
	if j == nil || j.UID == c.Job.UID || j.Follows(c.Job.UID) {
		return false
	}
	return (s.Fence == 0 || c.Later(s)) && c.Ran() && c.Phase != Done
}

// Later reports whether the job of claim c was made in the store of s, after the job that s shows. A
// store has one job of a name at a time. So the older job was removed, and then the store was set back.
// The times are those of the machines that made the jobs. So the record of the older job must also be of
// before the node last read the store.
func (c *Claim) Later(s *Snapshot) bool {
	return c.Cluster == s.Cluster && s.Job.Rev <= c.StoreRev && c.Job.Time.After(s.Job.Time)
}

// Ran reports whether the job ever had a World, as far as the node knows. If it had one, it may
// have checkpoints.
func (c *Claim) Ran() bool { return c.World > 0 || c.Known.Number > 0 || c.Job.Ran }

// PassedOver reports whether the store was set back and the job then went on without the node of
// claim c: s has as many commits as the node knows, but none of a step as late as the newest that
// the node knows. If the job went back to an older checkpoint on purpose since, it was not passed
// over.
func (c *Claim) PassedOver(s *Snapshot) bool {
	return s.Job != nil && s.World != nil && s.Job.UID == c.Job.UID && c.Known.Manifest != s.Head.Manifest &&
		c.Known.LaterStep(s.Head) && s.World.Rollback <= c.World && s.Fence == s.World.Generation
}

// Claimed reports whether a node that found the store behind claims job j: under its present uid,
// under an earlier or a later one, or as another job that outranks it.
func (s *Snapshot) Claimed(j *Job) bool {
	return slices.ContainsFunc(s.Claims, func(c Claim) bool {
		outranked := s.Job != nil && j.UID == s.Job.UID && c.Outranks(s)
		return c.Behind && (c.of(j) || outranked)
	})
}

// ClaimedOf returns the last one of the earlier jobs of a node that other nodes claim; nil: none.
func (s *Snapshot) ClaimedOf(earlier []Earlier) *Job {
	for i := len(earlier) - 1; i >= 0; i-- {
		if j := &earlier[i].Claim.Job; s.Claimed(j) {
			return j
		}
	}
	return nil
}

// Outranked reports whether another node claims job j, and its claim outranks the job that s shows.
func (s *Snapshot) Outranked(j *Job) bool {
	return slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.Behind && c.of(j) && c.Outranks(s) })
}

// of reports whether the claim is to job j, under its present uid or under an earlier or a later one.
func (c *Claim) of(j *Job) bool {
	return c.Job.UID == j.UID || c.Job.Follows(j.UID) || j.Follows(c.Job.UID)
}
