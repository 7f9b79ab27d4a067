package rendezvous

import "time"

// StopAlone is the end of an attempt that was asked to stop while no node is registered: there is
// nobody to take note, to save or to write it, so whoever asked does. What all ranks finished is done.
func StopAlone(s *Snapshot, now time.Time) End {
	x := newExplainer(s, now)
	if x.w != nil {
		held := *x.w
		held.Phase, held.Hold = Waiting, &Hold{} // as good as: an unplanned Hold is through at once
		x.w = &held
	}
	return x.stop().(End)
}
