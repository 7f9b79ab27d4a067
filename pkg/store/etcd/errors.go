package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of Probe and of a watch.
var (
	// ErrUnreachable: no endpoint gives an answer.
	ErrUnreachable = errors.New("etcd cannot be reached")
	// ErrAuth: etcd refuses this user, password or certificate, or this client refuses etcd's
	// certificate.
	ErrAuth = errors.New("etcd refuses these credentials")
	// ErrCertName: the certificate of the server is for another name than the one dialled. It is an
	// ErrAuth.
	ErrCertName = fmt.Errorf("%w: the server's certificate is for another name", ErrAuth)
	// ErrCertTrust: the certificate of the server is signed by no authority that is trusted here.
	// It is an ErrAuth.
	ErrCertTrust = fmt.Errorf("%w: the server's certificate is not trusted", ErrAuth)
	// ErrCertTime: the certificate of the server has expired, or a clock is wrong. It is an
	// ErrAuth.
	ErrCertTime = fmt.Errorf("%w: the server's certificate is not valid now", ErrAuth)
	// ErrCertRefused: the server requires a certificate, or refuses the one of this client. It is
	// an ErrAuth.
	ErrCertRefused = fmt.Errorf("%w: it does not accept our certificate", ErrAuth)
	// ErrCertExpired: the server refuses the certificate of this client because it has expired, or
	// a clock is wrong. It is an ErrCertRefused.
	ErrCertExpired = fmt.Errorf("%w: it is not valid now", ErrCertRefused)
	// ErrTLSFiles: the files for TLS cannot be used.
	ErrTLSFiles = errors.New("read the files for TLS")
	// ErrPlain: a password or a certificate was given for an endpoint without TLS.
	ErrPlain = errors.New("credentials for an endpoint without TLS")
	// ErrNotEtcd: a server answers there, but it is not an etcd v3.
	ErrNotEtcd = errors.New("this is not an etcd v3")
	// ErrWantsTLS: the server speaks TLS, and was asked without. It is an ErrNotEtcd.
	ErrWantsTLS = fmt.Errorf("%w: it speaks TLS, and the request did not", ErrNotEtcd)
	// ErrOtherKey: the server's key is not the one that Config.TLS asks for. It is an ErrAuth.
	ErrOtherKey = fmt.Errorf("%w: it has another key", ErrAuth)
	// ErrOtherUser: a process of another user serves the socket. It is an ErrAuth.
	ErrOtherUser = fmt.Errorf("%w: it is another user's", ErrAuth)
	// ErrNoTLS: the server speaks no TLS, and Config.TLS was given. It is an ErrNotEtcd.
	ErrNoTLS = fmt.Errorf("%w: it speaks no TLS", ErrNotEtcd)
	// ErrNoQuorum: a member answers, but the cluster has no majority.
	ErrNoQuorum = errors.New("etcd has no quorum")
	// ErrTwoClusters: endpoints are of different clusters.
	ErrTwoClusters = errors.New("these are members of different clusters")
	// ErrOtherCluster: another cluster answers than the one that was read. Its revisions mean
	// nothing for the old one.
	ErrOtherCluster = errors.New("another etcd cluster answers")

	errClosed = errors.New("store is closed")
	errSilent = errors.New("watch is silent")
)

// certificate classifies a TLS error by its text, because gRPC passes nothing else on.
func certificate(text string) error {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("remote error: tls:", "certificate required"):
		return ErrCertRefused
	case has("certificate is valid for", "certificate is not valid for any", "doesn't contain any IP SANs",
		"cannot validate certificate for", "legacy Common Name"):
		return ErrCertName
	case has("has expired or is not yet valid"):
		return ErrCertTime
	case has("signed by unknown authority", "failed to verify certificate"):
		return ErrCertTrust
	}
	return ErrAuth
}

// refusal is a final error of etcd, which a repeated request would get again.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Refused implements the interface of store.Refused.
func (refusal) Refused() bool { return true }

// classify returns the error of etcd in an error of gRPC, as a refusal if it is final. That of a
// full store (NOSPACE) is not final, because the store may get space again, and the request that
// filled it was applied.
func classify(err error) error {
	if err == nil {
		return nil
	}
	named := rpctypes.Error(err)
	var e rpctypes.EtcdError
	if !errors.As(named, &e) {
		if status.Code(err) == codes.ResourceExhausted { // gRPC's own limit of a message
			return refusal{err}
		}
		return err
	}
	if authFailed(named) || e.Code() == codes.InvalidArgument && !staleToken(named) {
		return refusal{named}
	}
	return named
}

// authFailed reports whether credentials were refused for good.
func authFailed(err error) bool {
	return errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrPermissionDenied) ||
		errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken)
}

// staleToken reports whether etcd wants a new token, and did not carry out the request.
func staleToken(err error) bool {
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken) ||
		errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// answered reports whether every endpoint would answer with err.
func answered(err error) bool {
	var r refusal
	return errors.As(err, &r) || errors.Is(err, rpctypes.ErrLeaseNotFound) ||
		errors.Is(err, rpctypes.ErrNoSpace)
}

// namedIn returns the error whose text etcd gives when it ends a watch.
func namedIn(text string) error {
	for _, err := range []error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrUserEmpty, rpctypes.ErrPermissionDenied, rpctypes.ErrNoLeader, rpctypes.ErrCompacted} {
		if strings.Contains(text, err.Error()) {
			return err
		}
	}
	return errors.New(text)
}
