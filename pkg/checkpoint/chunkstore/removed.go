package chunkstore

import "path/filepath"

// Abandon has the store take nothing more, because its directory was removed or replaced. What it has can
// still be read.
func (s *Store) Abandon() {
	s.disk.Abandon()
	s.tell() // the inventory is empty now
}

// Return undoes Abandon: the same directory is at its path again.
func (s *Store) Return() {
	s.disk.Return()
	s.tell()
}

// Abandoned returns ErrRemoved after Abandon.
func (s *Store) Abandoned() error { return s.disk.Abandoned() }

// Dirs returns the directories of a store in dir. As long as the store is there, these are the same
// directories.
func Dirs(dir string) []string {
	all := []string{dir}
	for _, name := range directories() {
		all = append(all, filepath.Join(dir, name))
	}
	return all
}
