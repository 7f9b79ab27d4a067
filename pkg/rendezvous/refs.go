package rendezvous

import (
	"github.com/elasticd/elastic/pkg/membership"
)

// RefSet is a set of members. It exists for large worlds, where comparing two lists member by
// member takes quadratic time.
type RefSet map[membership.Incarnation]string // node name by incarnation

// NewRefSet returns the set of some members.
func NewRefSet(refs []membership.Ref) RefSet {
	l := make(RefSet, len(refs))
	for _, r := range refs {
		l.Add(r)
	}
	return l
}

// Add adds a member.
func (l RefSet) Add(r membership.Ref) { l[r.Incarnation] = r.Node }

// Has reports whether a member, as the same incarnation, is in the set.
func (l RefSet) Has(r membership.Ref) bool { n, ok := l[r.Incarnation]; return ok && n == r.Node }

// SetOf is the set of some names; nil, an empty set, if there are none.
func SetOf[T comparable](list []T) map[T]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}
