package chunkstore

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Fingerprints has a fingerprint of each entry of the checkpoint directory.
type Fingerprints struct {
	Before map[string]string `json:"before"` // before the first worker of the job
	Prints map[string]string `json:"prints"` // at the last commit, or when workers started

	// The generation and job whose saves are captured here; empty on a node that captures none.
	Generation schema.Generation `json:"generation,omitempty"`
	UID        schema.UID        `json:"uid,omitempty"`
	Boot       string            `json:"boot,omitempty"` // of the machine, when they were captured
}

// SaveFingerprints writes fingerprints. They replace those that were saved before.
func (s *Store) SaveFingerprints(f *Fingerprints) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return s.disk.WriteFile(".", readonly.Fingerprints, b)
}

// Fingerprints returns the fingerprints that were saved last, or nil if none can be read.
func (s *Store) Fingerprints() (*Fingerprints, error) {
	b, err := s.disk.ReadFile(readonly.Fingerprints, manifest.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f Fingerprints
	if json.Unmarshal(b, &f) != nil {
		return nil, nil
	}
	return &f, nil
}
