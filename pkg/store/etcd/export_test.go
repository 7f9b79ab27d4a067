package etcd

// Begin makes endpoint i the one that is asked first.
func (s *Store) Begin(i int) { s.at.Store(int64(i)) }
