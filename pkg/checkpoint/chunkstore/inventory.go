package chunkstore

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

const inventoryFile = "inventory"

// SaveInventory keeps a print of each entry of the checkpoint directory.
func (s *Store) SaveInventory(prints map[string]string) error {
	b, err := json.Marshal(prints)
	if err != nil {
		return err
	}
	return s.disk.WriteFile(".", inventoryFile, b)
}

// Inventory is what SaveInventory kept last; nil if there is none that can be read.
func (s *Store) Inventory() (prints map[string]string, err error) {
	b, err := s.disk.ReadFile(inventoryFile, manifest.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(b, &prints) != nil {
		return nil, nil
	}
	return prints, nil
}
