package rendezvous

import "github.com/elasticd/elastic/pkg/membership"

// lives is a set of members: of many, where looking at each for each would take the square of them.
type lives map[membership.Incarnation]string // the node of each

func livesOf(refs []membership.Ref) lives {
	l := make(lives, len(refs))
	for _, r := range refs {
		l.add(r)
	}
	return l
}

func (l lives) add(r membership.Ref)      { l[r.Incarnation] = r.Node }
func (l lives) has(r membership.Ref) bool { n, ok := l[r.Incarnation]; return ok && n == r.Node }

// setOf is the set of some names; nil, which has nothing, of none.
func setOf[T comparable](list []T) map[T]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}
