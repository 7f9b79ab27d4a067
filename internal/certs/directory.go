package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/regular"
)

// The authorities of a directory, by the names of their files.
const (
	CA     = "ca"      // of the server and its clients
	PeerCA = "peer-ca" // of the members
)

// Request says which certificates a directory must have. Existing authorities stay. All other
// certificates are made again.
type Request struct {
	Dir     string
	Hosts   []string // of the server
	Clients []string // names of clients: used for the files and as users of etcd
	Life    time.Duration
	Now     time.Time
}

// Made is one certificate, in memory and on disk as Name.crt and Name.key.
type Made struct {
	Name  string
	For   string
	Hosts []string
	Until time.Time
	Pair
}

// Make makes the certificates of a directory, and the directory if there is none. Both authorities
// are first in the result. Errors are those of the file system, ErrAuthority and ErrHost.
func Make(r Request) ([]Made, error) {
	if err := checkHosts(r.Hosts); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := regular.CheckDir(r.Dir); err != nil { // a user could have planted an authority of his own
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	ca, err := r.authority(CA, "elastic")
	if err != nil {
		return nil, err
	}
	peerCA, err := r.authority(PeerCA, "elastic members")
	if err != nil {
		return nil, err
	}
	made := []Made{
		{Name: CA, For: "authority of the server and its clients", Until: ca.cert.NotAfter, Pair: ca.Pair},
		{Name: PeerCA, For: "authority of the members", Until: peerCA.cert.NotAfter, Pair: peerCA.Pair},
	}
	add := func(a *Authority, file, what string, s Spec) error {
		s.Life = r.Life
		pair, err := a.Sign(s, r.Now)
		if err != nil {
			return err
		}
		until := r.Now.Add(r.Life)
		if a.cert.NotAfter.Before(until) {
			until = a.cert.NotAfter
		}
		made = append(made, Made{Name: file, For: what, Hosts: s.Hosts, Until: until, Pair: pair})
		return r.write(file, pair)
	}
	if err := add(ca, "server", "elasticd towards clients",
		Spec{Use: Server, Name: "elasticd", Hosts: r.Hosts}); err != nil {
		return nil, err
	}
	if err := add(peerCA, "peer", "elasticd towards the other members",
		Spec{Use: Peer, Name: "elasticd", Hosts: r.Hosts}); err != nil {
		return nil, err
	}
	for _, name := range r.Clients {
		if err := add(ca, name, "user "+name, Spec{Use: Client, Name: name}); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// ErrHost means that a name is none that one server can have.
var ErrHost = errors.New("no name or address of one server")

// checkHosts fails for names for which a certificate would stand for every server.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		ip := net.ParseIP(h)
		if h == "" || strings.ContainsAny(h, "*/ ") || ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("%w: %q", ErrHost, h)
		}
	}
	return nil
}

// ErrAuthority means that the files of an authority exist, but cannot be used.
var ErrAuthority = errors.New("the authority cannot be used")

// authority reads the authority of the directory. It makes the authority if neither file exists.
func (r Request) authority(file, name string) (*Authority, error) {
	cert, err := regular.ReadOwn(r.path(file + ".crt"))
	key, keyErr := regular.ReadSecret(r.path(file + ".key"))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		a, err := NewAuthority(name, r.Now)
		if err != nil {
			return nil, err
		}
		return a, r.write(file, a.Pair)
	}
	if err := errors.Join(err, keyErr); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	a, err := ReadAuthority(Pair{cert, key})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAuthority, r.path(file+".crt"), err)
	}
	if !r.Now.Before(a.cert.NotAfter) {
		return nil, fmt.Errorf("%w: %s expired on %s",
			ErrAuthority, r.path(file+".crt"), a.cert.NotAfter.Format(time.DateOnly))
	}
	return a, nil
}

// write writes the key first, so that the pair is complete if the certificate exists.
func (r Request) write(file string, p Pair) error {
	if err := replace(r.path(file+".key"), p.Key); err != nil {
		return err
	}
	return replace(r.path(file+".crt"), p.Cert)
}

func (r Request) path(file string) string { return filepath.Join(r.Dir, file) }

// replace writes a file whole or not at all. Only its user can read it.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
