package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/regular"
)

// TokenEnv is the variable with the token of a server and its nodes.
const TokenEnv = "ELASTIC_TOKEN"

// TokenFile returns the file with the token of a HOST:PORT, as all nodes spell it. It is not in the
// part of one machine: nodes that share the state directory share the token, too.
func TokenFile(at, stateDir string, env func(string) string) (string, error) {
	root, err := stateRoot(stateDir, env)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "tokens", at), nil
}

// KeepToken returns the token in a file. If there is no file, it makes one with a new token, and of
// nodes that do so at the same time one succeeds.
func KeepToken(path string) (certs.Token, error) {
	for {
		t, err := ReadToken(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", problem.New(problem.StateDir, "write the token of the server: %v", err).
				Cure("--state-dir=DIR, or --token-file=FILE")
		}
	}
}

// ReadToken reads the token in a file, which no other user may write or read. It returns
// fs.ErrNotExist if there is none.
func ReadToken(path string) (certs.Token, error) {
	text, err := regular.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var t certs.Token
	if err == nil {
		t, err = certs.ParseToken(string(text))
	}
	if err != nil {
		return "", problem.New(problem.StateDir, "token file %s: %v", path, err).
			Because("who knows the token can run programs as the users of its nodes").
			Cure("a file of yours with mode 0600 and a random word of 20 characters: openssl rand -hex 16")
	}
	return t, nil
}

// makeToken writes a new token to a file that does not exist, whole or not at all.
func makeToken(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp := filepath.Join(dir, ".new-"+string(certs.NewToken()))
	if err := os.WriteFile(temp, []byte(certs.NewToken()+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(os.Link(temp, path), os.Remove(temp))
}
